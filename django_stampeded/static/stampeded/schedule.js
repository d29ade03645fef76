/* Shows a schedule's next times, or what is wrong with its timing, while it is typed. Without it both are told on saving. */
"use strict";
(function () {
  const NAMES = ["cron_expr", "interval_secs", "timezone", "dst_policy"];
  const PAUSE = 300;

  function line(place, kind, text, mark) {
    const item = document.createElement(kind);
    item.textContent = mark ? text + " — " + mark : text;
    place.appendChild(item);
  }

  function show(place, answer) {
    place.replaceChildren();
    place.hidden = false;
    if (answer.error) {
      const words = document.createElement("p");
      words.className = "errornote";
      words.textContent = answer.error;
      place.appendChild(words);
      return;
    }
    line(place, "h2", place.dataset.title);
    const list = document.createElement("ul");
    answer.times.forEach((time) => line(list, "li", time.at, time.mark));
    place.appendChild(list);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("stampeded-preview");
    const fields = NAMES.map((name) => document.getElementById("id_" + name)).filter(Boolean);
    if (place === null || fields.length === 0) {
      return;
    }
    let timer = null;
    let latest = 0;

    async function ask() {
      const number = ++latest;
      const query = new URLSearchParams(fields.map((field) => [field.name, field.value]));
      try {
        const answer = await fetch(place.dataset.url + "?" + query, {credentials: "same-origin"});
        const read = answer.ok ? await answer.json() : null;
        if (read !== null && number === latest) {
          show(place, read);
        }
      } catch (error) {
        place.hidden = true; // no answer: saving will tell
      }
    }

    fields.forEach((field) => field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, PAUSE);
    }));
  });
})();
