// Numbers the controls of the page that the keyboard must reach, in the attribute `data-control`.
// Returns how many there are.
(() => {
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const controls = [...document.querySelectorAll(kinds)].filter(
    (control) => !control.disabled && control.checkVisibility({ visibilityProperty: true }),
  );
  controls.forEach((control, number) => (control.dataset.control = number));
  return controls.length;
})()
