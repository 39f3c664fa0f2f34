/* Beside a field that is there to be copied: a button that copies it. Without this the field is selected by hand. */
for (const field of document.querySelectorAll("input[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    field.select();
    await navigator.clipboard.writeText(field.value);
    button.textContent = "Copied";
  });
  if (navigator.clipboard) field.after(" ", button);
}
