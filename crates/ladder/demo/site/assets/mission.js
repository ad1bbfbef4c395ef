// Small comforts; the site works without them.
document.addEventListener("DOMContentLoaded", () => {
  // A form is sent once, however often its button is pressed.
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) { event.preventDefault(); }
      form.dataset.sent = "yes";
    });
  }
  // What a visitor types into a comment survives a reload.
  for (const area of document.querySelectorAll("textarea[name=comment]")) {
    const key = "draft:" + location.pathname;
    if (!area.value) { area.value = sessionStorage.getItem(key) || ""; }
    area.addEventListener("input", () => sessionStorage.setItem(key, area.value));
    area.form.addEventListener("submit", () => sessionStorage.removeItem(key));
  }
  // "/" leads to the search.
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("input[type=search]");
    if (event.key === "/" && search && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
  });
});
