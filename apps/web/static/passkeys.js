// Creates a passkey, or signs with one, when the form is submitted. Its `data-passkey` is "create" or
// "get", its `data-options` the options of WebAuthn as JSON. Loaded by the pages with such a form.

const form = document.querySelector("form[data-passkey]");
const failed = document.querySelector("[data-passkey-failed]");

function answer() {
    const options = JSON.parse(form.dataset.options);
    if (form.dataset.passkey === "create") {
        const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
        return navigator.credentials.create({publicKey});
    }
    return navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)});
}

async function send(event) {
    event.preventDefault();
    failed.hidden = true;
    try {
        form.elements.credential.value = JSON.stringify((await answer()).toJSON());
    } catch {
        failed.hidden = false;
        return;
    }
    form.submit();
}

if (form && window.PublicKeyCredential?.parseCreationOptionsFromJSON) {
    form.addEventListener("submit", send);
    form.hidden = false;
}
