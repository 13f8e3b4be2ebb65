// What check.py wants to know of the page that is open. The value of the last expression is its answer.
(() => {
  const CONTRAST_MIN = 4.5;
  // Lines and dots are no text; 3 is what the guidelines ask for graphics.
  const SERIES_CONTRAST_MIN = 3;
  const problems = [];
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const isClear = (colour) => numbers(colour)[3] === 0;
  const luminance = (colour) => {
    const linear = numbers(colour).slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (one, two) => {
    const [dark, light] = [luminance(one), luminance(two)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const backgroundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!isClear(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };

  for (const details of document.querySelectorAll("details")) details.open = true;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll("body *")].filter((element) => {
      return !element.closest(".scroll, svg") && element.getBoundingClientRect().right > root.clientWidth + 0.5;
    });
    const names = wide.slice(0, 3).map((element) => `${element.tagName}.${element.className}`);
    problems.push(`scrolls to the side: ${root.scrollWidth} of ${root.clientWidth} px: ${names.join(", ")}`);
  }

  let series = 0;
  const charts = [...document.querySelectorAll("figure[data-chart]")];
  for (const chart of charts) {
    const name = chart.dataset.chart;
    const groups = [...chart.querySelectorAll("svg [data-series]")];
    const claimed = Number(chart.dataset.seriesCount);
    if (claimed < 1 || groups.length !== claimed) problems.push(`${name}: ${groups.length} of ${claimed} series`);
    const names = new Set(groups.map((group) => group.dataset.series));
    if (names.size !== groups.length) problems.push(`${name}: two series with the same name`);
    const keys = chart.querySelectorAll(".legend li").length;
    if (keys !== claimed) problems.push(`${name}: ${keys} names in the legend for ${claimed} series`);
    for (const group of groups) {
      series += 1;
      const shapes = [...group.querySelectorAll("polyline, polygon, path, rect, circle, line")];
      const visible = shapes.filter((shape) => {
        const { width, height } = shape.getBoundingClientRect();
        const { stroke, fill, opacity, visibility } = getComputedStyle(shape);
        const isPainted = [stroke, fill].some((paint) => paint !== "none" && !isClear(paint));
        return width + height > 0 && isPainted && Number(opacity) > 0 && visibility === "visible";
      });
      if (visible.length === 0) problems.push(`${name}: nothing is seen of ${group.dataset.series}`);
      const seen = contrast(getComputedStyle(group).color, backgroundOf(chart));
      if (seen < SERIES_CONTRAST_MIN) {
        problems.push(`${name}: ${group.dataset.series} has a contrast of ${seen.toFixed(1)}`);
      }
      const box = group.getBoundingClientRect();
      const frame = chart.querySelector("svg.chart").getBoundingClientRect();
      if (box.left < frame.left - 8 || box.right > frame.right + 8 || box.top < frame.top - 8 || box.bottom > frame.bottom + 8) {
        problems.push(`${name}: ${group.dataset.series} leaves the chart`);
      }
    }
    // Labels must not lie on each other.
    const labels = [...chart.querySelectorAll("svg.chart text")].filter((label) => label.textContent.trim());
    const boxes = labels.map((label) => [label.textContent.trim(), label.getBoundingClientRect()]);
    for (let one = 0; one < boxes.length; one += 1) {
      for (let two = one + 1; two < boxes.length; two += 1) {
        const [a, b] = [boxes[one][1], boxes[two][1]];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) problems.push(`${name}: "${boxes[one][0]}" and "${boxes[two][0]}" overlap`);
      }
    }
  }

  const low = new Map();
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!hasText || element.tagName === "title") continue;
    const style = getComputedStyle(element);
    const seen = contrast(element instanceof SVGElement ? style.fill : style.color, backgroundOf(element));
    const name = `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}`;
    if (seen < CONTRAST_MIN) low.set(name, seen);
  }
  for (const [name, seen] of low) problems.push(`text of ${name} has a contrast of ${seen.toFixed(1)}`);

  for (const details of document.querySelectorAll("details")) details.open = false;
  const { backgroundColor, color } = getComputedStyle(document.body);
  return { problems, charts: charts.length, series, background: backgroundColor, colour: color, height: root.scrollHeight };
})();
