# Makes deploy/nginx.conf a configuration without TLS: `sed -f deploy/plain-http.sed deploy/nginx.conf`.
/^# Plain http is redirected/,/^}/d
s/443 ssl;/80;/
/^ *ssl_/d
/^ *# Browsers use https alone/d
/Strict-Transport-Security/d
