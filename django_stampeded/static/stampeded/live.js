/* Keeps a part of a page up to date: fetches its address every two seconds while the page is looked at, and puts what the
   server rendered in its place. Without it the page is what it was when it was loaded. */
"use strict";
(function () {
  const INTERVAL = 2000;

  function follow(place) {
    const ended = () => place.querySelector("[data-stampeded-ended]") !== null;
    const again = () => setTimeout(look, INTERVAL);

    function show(text) {
      const part = new DOMParser().parseFromString(text, "text/html").querySelector("[data-stampeded-part]");
      if (part === null) {
        return false; // some other page, as the login's: what stands there stays
      }
      // What has not changed is not read out again, and what somebody has the focus in stays until they have left it.
      const shown = place.querySelector("[data-stampeded-part]");
      if (place.contains(document.activeElement) || (shown !== null && shown.isEqualNode(part))) {
        return true;
      }
      const open = Array.from(place.querySelectorAll("details"), (each) => each.open);
      place.replaceChildren(part);
      place.querySelectorAll("details").forEach((each, number) => { each.open = open[number] || false; });
      return true;
    }

    async function look() {
      if (document.hidden) {
        again();
        return;
      }
      let more = true;
      try {
        const answer = await fetch(place.dataset.stampededLive, {credentials: "same-origin"});
        more = answer.ok && show(await answer.text());
      } catch (error) {
        more = true; // the server or the network is away for a moment
      }
      if (ended()) {
        document.querySelectorAll("[data-stampeded-until-ended]").forEach((each) => each.remove());
      } else if (more) {
        again();
      }
    }

    if (!ended()) {
      again();
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-stampeded-live]").forEach(follow);
  });
})();
