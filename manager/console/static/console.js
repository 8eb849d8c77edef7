// Makes a page readable and used by keyboard, and keeps it current: server-sent events say that it changed, then it is read again.
"use strict";

// What each cell is, for where a table is shown as cards; ages; what only a script can do.
const dress = (root) => {
  for (const table of root.querySelectorAll("table")) {
    const titles = [...table.querySelectorAll("thead th")].map((each) => each.textContent.replace(/[▲▼]/g, "").trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, place) => {
        cell.dataset.label = titles[place] || "";
        if (!cell.textContent.trim() && !cell.firstElementChild) cell.classList.add("empty");
      });
    }
  }
  for (const each of root.querySelectorAll("h2")) each.tabIndex = -1;  // also one that replaces the one with the focus
  for (const each of root.querySelectorAll("button[hidden]")) each.hidden = false;
  const lines = root.querySelector("#lines");
  const wrap = root.querySelector("#wrap");
  if (lines && wrap) {
    const wrapped = document.body.dataset.wrap !== "off";
    lines.classList.toggle("long", !wrapped);
    wrap.setAttribute("aria-pressed", String(wrapped));
  }
};

// The same words as the server's.
const ageOf = (text) => {
  const seconds = (Date.now() - Date.parse(text)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (Math.abs(seconds) < 60) return `${Math.max(Math.round(seconds), 0)}s`;
  const sign = seconds < 0 ? "in " : "";
  for (const [unit, letter, part, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 0, ""]]) {
    const size = Math.floor(Math.abs(seconds));
    if (size < unit) continue;
    const whole = Math.floor(size / unit);
    const rest = size % unit;
    const minor = whole < 10 && part && rest >= part ? `${Math.floor(rest / part)}${small}` : "";
    return `${sign}${whole}${letter}${minor}`;
  }
  return "";
};
const tick = () => {
  for (const each of document.querySelectorAll("time[datetime]")) {
    const age = each.querySelector(".age");
    const text = ageOf(each.getAttribute("datetime"));
    if (age && text && age.textContent !== text) age.textContent = text;
  }
};

(() => {
  dress(document);
  tick();
  window.setInterval(() => { if (!document.hidden) tick(); }, 15000);
  const keys = document.getElementById("keys");
  if (keys) keys.hidden = false;

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "wrap") {
      document.body.dataset.wrap = button.getAttribute("aria-pressed") === "true" ? "off" : "on";
      dress(document);
    } else if (button.dataset.copy && navigator.clipboard) {
      navigator.clipboard.writeText(button.dataset.copy).then(
        () => { button.textContent = "Copied"; },
        () => { button.textContent = "Not copied: select it"; },
      );
    }
  });

  // The objects of a page, in the order in which they are read.
  const step = (by) => {
    const links = [...document.querySelectorAll("#content tbody th a, #content .tree a")];
    if (!links.length) return;
    const place = links.indexOf(document.activeElement);
    const next = place < 0 ? (by > 0 ? 0 : links.length - 1) : place + by;
    const link = links[Math.min(Math.max(next, 0), links.length - 1)];
    link.focus();
    link.scrollIntoView({ block: "nearest" });
  };
  const section = () => {
    const found = [...document.querySelectorAll("#content h2")];
    const below = found.find((each) => each.getBoundingClientRect().top > 8) || found[0];
    if (!below) return;
    below.scrollIntoView();
    below.focus({ preventScroll: true });
  };
  const open = (path) => {
    const namespace = document.getElementById("namespace");
    const place = namespace && namespace.defaultValue;
    window.location.assign(place ? `${path}?namespace=${encodeURIComponent(place)}` : path);
  };
  const actions = {
    "/": () => { const field = document.getElementById("search"); if (field) field.select(); },
    j: () => step(1),
    k: () => step(-1),
    s: section,
    p: () => { const button = document.getElementById("pause"); if (button) button.click(); },
    h: () => open("/"),
    f: () => open("/failures"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target.closest("input, textarea, select");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    const action = Object.hasOwn(actions, event.key) && actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
})();

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
  const isLog = () => log() && log().dataset.top === undefined;
  if (isLog()) scroll(log(), null);

  const replace = (text) => {
    const found = new DOMParser().parseFromString(text, "text/html").getElementById("content");
    if (!found) return;
    const place = focused();
    const [x, y] = [window.scrollX, window.scrollY];
    const spot = placeOf(log());
    dress(found);
    content().replaceWith(document.adoptNode(found));
    tick();
    scroll(log(), isLog() ? spot : log() ? log().scrollTop : 0);
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
        const text = await answer.text();
        if (paused) {  // while it was on its way
          stale = true;
          say("Paused; the page has changed");
          return;
        }
        replace(text);
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
