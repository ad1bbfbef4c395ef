// Describes the element with the keyboard focus: its number of `data-control`, and whether the focus
// is visible.
(() => {
  const focused = document.activeElement;
  const style = getComputedStyle(focused);
  return {
    control: focused.dataset.control ?? null,
    isVisible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    html: focused.outerHTML.slice(0, 200),
  };
})()
