/* Keeps the overview alive: has its sections streamed where the server can, else asks for them every few seconds, and draws the
   charts with uPlot.
   The server has escaped what it sends as markup; names in the charts are set as text. */
"use strict";
(function () {
  const root = document.getElementById("stampeded-overview");
  if (!root) return;
  const note = document.getElementById("stampeded-live");
  const every = Number(root.dataset.every);
  let drawing = JSON.parse(document.getElementById("stampeded-drawing").textContent);
  let plots = {};
  let timer = null;
  let failures = 0;
  let stream = null;
  let vainStreams = 0;

  function style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axis(values) {
    return {
      stroke: style("--body-quiet-color"),
      grid: { stroke: style("--hairline-color"), width: 1 },
      ticks: { stroke: style("--hairline-color"), width: 1 },
      ...values,
    };
  }

  function clock() {
    return new Intl.DateTimeFormat(drawing.language, {
      hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: drawing.zone,
    });
  }

  function series(names) {
    const time = clock();
    const lines = names.map(function (name, place) {
      const color = style("--stampeded-line-" + (place % 8));
      return { label: name, stroke: color, width: place ? 1.5 : 2, points: { show: false } };
    });
    return [{ label: drawing.words.time, value: (_, at) => (at == null ? "—" : time.format(new Date(at * 1000))) }, ...lines];
  }

  function draw(figure, chart) {
    const box = figure.querySelector(".stampeded-canvas");
    const time = clock();
    box.replaceChildren();
    return new uPlot({
      width: Math.max(200, box.clientWidth),
      height: 180,
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [
        axis({ space: 90, values: (_, splits) => splits.map((at) => time.format(new Date(at * 1000))) }),
        axis({ size: 60 }),
      ],
      series: series(chart.lines),
    }, [drawing.times, ...chart.values], box);
  }

  function show(anew) {
    if (typeof uPlot === "undefined") return;
    const figures = [...root.querySelectorAll("[data-chart]")];
    for (const figure of figures) {  // all of them before any is drawn: they share the width
      const chart = drawing.charts[figure.dataset.chart];
      figure.hidden = !chart || !drawing.times.length || !chart.lines.length;
    }
    for (const figure of figures.filter((figure) => !figure.hidden)) {
      const name = figure.dataset.chart;
      const chart = drawing.charts[name];
      const known = plots[name];
      const lines = JSON.stringify(chart.lines);
      if (known && !anew && known.lines === lines) {
        known.plot.setData([drawing.times, ...chart.values]);
      } else {
        if (known) known.plot.destroy();
        plots[name] = { lines: lines, plot: draw(figure, chart) };
      }
      figure.dataset.points = drawing.times.length;
    }
  }

  function replace(name, markup) {
    const section = root.querySelector('[data-section="' + name + '"]');
    // What somebody reads or has the focus in stays as it is until they have left it.
    if (!section || section.contains(document.activeElement) || section.querySelector("details[open]")) return;
    if (section.dataset.shown !== markup) {
      section.innerHTML = markup;
      section.dataset.shown = markup;
    }
  }

  function say(words, live) {
    if (note.textContent !== words) note.textContent = words;
    note.hidden = false;
    root.dataset.state = live ? "live" : "lost";
  }

  function take(now) {
    for (const name of Object.keys(now.sections)) replace(name, now.sections[name]);
    drawing = now.drawing;
    show(false);
    say(drawing.words.live, true);
  }

  // A stream ends after a while, so that a look tells whether one may still see this. One that brings nothing is not asked for
  // a third time.
  function follow() {
    if (!root.dataset.stream || vainStreams > 1 || document.hidden) return false;
    vainStreams += 1;
    stream = new EventSource(root.dataset.stream);
    stream.onmessage = function (event) {
      vainStreams = 0;
      root.dataset.streamed = Number(root.dataset.streamed || 0) + 1;
      take(JSON.parse(event.data));
    };
    stream.onerror = function () {
      close();
      wait();
    };
    return true;
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  async function ask() {
    timer = null;
    if (document.hidden) return;
    try {
      const answer = await fetch(root.dataset.live, { credentials: "same-origin", redirect: "error" });
      if (answer.status === 403) return say(drawing.words.ended, false);
      if (!answer.ok) throw new Error(String(answer.status));
      take(await answer.json());
      failures = 0;
      if (follow()) return;
    } catch (error) {
      failures += 1;
      say(drawing.words.lost, false);
    }
    wait();
  }

  function wait() {
    if (timer === null) timer = setTimeout(ask, every * Math.min(10, 2 ** failures));
  }

  const resized = new ResizeObserver(function (boxes) {
    for (const { target } of boxes) {
      const known = plots[target.parentElement.dataset.chart];
      if (known && target.clientWidth) known.plot.setSize({ width: target.clientWidth, height: 180 });
    }
  });
  for (const box of root.querySelectorAll(".stampeded-canvas")) resized.observe(box);

  show(true);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(true));
  new MutationObserver(() => show(true)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  if (root.dataset.live) {
    document.addEventListener("visibilitychange", () => document.hidden ? close() : stream || wait());
    wait();
  }
})();
