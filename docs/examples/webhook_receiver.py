"""Print verified events of a webhook: `SECRET=whsec_… python3 webhook_receiver.py [PORT]`.

It needs `pip install standardwebhooks`. In production it stands behind a server with https.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

VERIFIER = Webhook(os.environ["SECRET"])
SEEN = set()
"""The ids of processed events. A real receiver stores them together with its own result."""


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = VERIFIER.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)  # not from our webhook, or changed on the way
            return
        if self.headers["webhook-id"] not in SEEN:  # an event may come more than once
            print(event["type"], event["data"], flush=True)
            SEEN.add(self.headers["webhook-id"])
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


if __name__ == "__main__":
    port = int(sys.argv[1]) if sys.argv[1:] else 9000
    HTTPServer(("127.0.0.1", port), Receiver).serve_forever()
