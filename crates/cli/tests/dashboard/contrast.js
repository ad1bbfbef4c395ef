// Returns the texts of the page whose contrast is below 4.5, or 3 for large text (WCAG 2.1, success
// criterion 1.4.3), a line each.
(() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // The canvas turns each notation of a colour into red, green, blue and opacity.
  const read = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, opacity] = context.getImageData(0, 0, 1, 1).data;
    return { channels: [red, green, blue], opacity: opacity / 255 };
  };
  const over = (top, under) =>
    top.channels.map((channel, at) => channel * top.opacity + under[at] * (1 - top.opacity));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(read(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const luminance = (channels) => {
    const linear = channels
      .map((channel) => channel / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const opacity = (element) => {
    let product = 1;
    for (let at = element; at; at = at.parentElement) {
      product *= Number(getComputedStyle(at).opacity);
    }
    return product;
  };
  const isHidden = (element, style) =>
    style.visibility !== "visible" ||
    element.getClientRects().length === 0 ||
    element.closest(":disabled, .skip, title, option") !== null;
  const problems = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    const style = getComputedStyle(element);
    if (text === "" || isHidden(element, style)) {
      continue;
    }
    const under = behind(element);
    const ink = read(element instanceof SVGElement ? style.fill : style.color);
    ink.opacity *= opacity(element);
    const lights = [luminance(over(ink, under)), luminance(under)].sort((one, other) => other - one);
    const contrast = (lights[0] + 0.05) / (lights[1] + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) {
      problems.add(`${contrast.toFixed(2)}: <${element.tagName} class="${element.className}"> ${text}`);
    }
  }
  return [...problems].join("\n");
})()
