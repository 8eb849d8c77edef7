// Keeps a page current: server-sent events say that it changed, then it is read again.
"use strict";

(() => {
  const address = document.body.dataset.live;
  const status = document.getElementById("live");
  const pause = document.getElementById("pause");
  if (!address || !status || !pause || !window.EventSource) return;

  let paused = false;
  let reading = false;
  let stale = false;

  const say = (text) => {
    if (status.textContent !== text) status.textContent = text;
  };

  const content = () => document.getElementById("content");

  // What has the focus is found again by its place: an id, or the target of a link.
  const focused = () => {
    const element = document.activeElement;
    if (!element || !content().contains(element)) return null;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const href = element.getAttribute("href");
    return href ? `a[href="${CSS.escape(href)}"]` : null;
  };

  const isTyping = () => {
    const element = document.activeElement;
    return Boolean(element && content().contains(element) && element.matches("input"));
  };

  // A log shows its end until someone scrolls up in it.
  const log = () => document.getElementById("lines");
  const placeOf = (element) => {
    const below = element ? element.scrollHeight - element.clientHeight - element.scrollTop : 0;
    return below < 2 ? null : element.scrollTop;
  };
  const scroll = (element, place) => {
    if (element) element.scrollTop = place === null ? element.scrollHeight : place;
  };
  scroll(log(), null);

  const replace = (text) => {
    const found = new DOMParser().parseFromString(text, "text/html").getElementById("content");
    if (!found) return;
    const place = focused();
    const [x, y] = [window.scrollX, window.scrollY];
    const spot = placeOf(log());
    content().replaceWith(document.adoptNode(found));
    scroll(log(), spot);
    const again = place && content().querySelector(place);
    if (again) again.focus({ preventScroll: true });
    window.scrollTo(x, y);
  };

  const read = async () => {
    if (reading || paused || document.hidden || isTyping()) {
      stale = true;
      if (paused) say("Paused; the page has changed");
      return;
    }
    reading = true;
    stale = false;
    try {
      const answer = await fetch(window.location.href, { credentials: "same-origin" });
      if (answer.ok) {
        replace(await answer.text());
        say("Live");
        document.body.dataset.reads = String(Number(document.body.dataset.reads || 0) + 1);
      } else {
        say(`Not current: the server answered ${answer.status}`);
      }
    } catch {
      say("Not current: the server was not reached");
    } finally {
      reading = false;
      if (stale) window.setTimeout(catchUp, 1000);
    }
  };

  const catchUp = () => {
    if (stale && !paused && !document.hidden && !isTyping()) read();
  };

  const source = new EventSource(address);
  let opened = false;
  source.addEventListener("open", () => {
    if (!paused) say("Live");
    if (opened) read();
    opened = true;
  });
  source.addEventListener("change", read);
  source.addEventListener("end", () => {
    source.close();
    say("Ended: sign in again, or ask for the right to see this page");
  });
  source.onerror = () => {
    say(source.readyState === EventSource.CLOSED ? "Not live" : "Connecting again");
  };
  window.addEventListener("pagehide", () => source.close());

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? "Paused" : "Live");
    catchUp();
  });
  document.addEventListener("visibilitychange", catchUp);
  document.addEventListener("focusout", () => window.setTimeout(catchUp, 0));
})();
