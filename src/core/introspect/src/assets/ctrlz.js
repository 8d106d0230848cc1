// Pages are complete without this. It keeps them fresh, filters while one types, reads keys and asks before something ends.
(() => {
  "use strict";
  const root = document.documentElement;
  const stored = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem(name);
      localStorage.setItem(name, value);
    } catch { /* storage may be forbidden */ }
    return value;
  };
  const themes = ["auto", "light", "dark"];
  const applyTheme = (theme) => { root.dataset.theme = themes.includes(theme) ? theme : "auto"; };
  // Before the first paint, so that a dark page does not flash.
  applyTheme(stored("ctrlz-theme"));

  const PACE = 2000;
  const LIGHT_PACE = 5000;
  const PATIENCE = 10000;
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  let paused = stored("ctrlz-paused") === "yes";
  let busy = false;

  const say = (text, bad) => {
    const place = $("#refreshed");
    place.textContent = text;
    place.classList.toggle("bad", Boolean(bad));
  };
  const isLive = () => $("main [data-live]") !== null;
  const inUse = (region) => {
    const focus = document.activeElement;
    return focus && region.contains(focus) && focus.matches("input, select, textarea");
  };

  // Takes over a region of a newer page; what the reader has opened stays open.
  const replace = (region, newer, force) => {
    if (!newer || region.innerHTML === newer.innerHTML || (inUse(region) && !force)) return;
    const open = all("details[data-keep][open]", region).map((d) => d.dataset.keep);
    for (const details of all("details[data-keep]", newer)) {
      if (open.includes(details.dataset.keep)) details.open = true;
    }
    const focus = document.activeElement;
    const link = focus && region.contains(focus) && focus.matches("a[href]") ? focus.getAttribute("href") : null;
    region.replaceChildren(...newer.childNodes);
    if (link) $(`a[href="${CSS.escape(link)}"]`, region)?.focus();
  };

  // What a page shows of a server that does not answer is old, and must not look as if it were not.
  let lastAnswer = new Date().toLocaleTimeString();
  let goneSince = null;
  // The plots end when the server answered last.
  const markPlots = () => {
    const end = goneSince ?? (paused ? lastAnswer : "now");
    const write = (place, text) => { if (place.textContent !== text) place.textContent = text; };
    for (const place of all("main .drawing .until")) write(place, end);
    for (const place of all("main .drawing .since")) {
      write(place, place.textContent.replace(/(ago|before)$/, end === "now" ? "ago" : "before"));
    }
  };
  const setGone = (gone) => {
    if (gone === (goneSince !== null)) return;
    goneSince = gone ? lastAnswer : null;
    root.classList.toggle("gone", gone);
    let notice = $("#gone");
    if (!gone) { notice?.remove(); return; }
    const state = $("#state");
    if (state) { state.className = "pill bad"; state.textContent = "gone"; state.title = `no answer since ${goneSince}`; }
    notice = document.createElement("p");
    notice.id = "gone";
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    notice.textContent = `The server has not answered since ${goneSince}. What is shown was read before.`;
    $("main").prepend(notice);
  };

  // What was typed and explained stays for a comparison.
  const setChanged = () => {
    if ($("#changed")) return;
    const notice = document.createElement("p");
    notice.id = "changed";
    notice.className = "notice warn";
    notice.setAttribute("role", "status");
    notice.textContent = "The configuration has changed since this was explained. Explain again to see what it says now.";
    $("main").prepend(notice);
  };

  const load = async (address) => {
    const response = await fetch(address, {
      headers: { accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(PATIENCE),
    });
    // The page asks for the token, of which a server that was started again may have another one.
    if (response.status === 401) location.reload();
    // A proxy in front of a server that is gone, or another program on its port.
    if (!response.headers.has("x-controlz")) throw new TypeError("not an answer of this server");
    if (!response.ok && response.status !== 404) throw new Error(String(response.status));
    return new DOMParser().parseFromString(await response.text(), "text/html");
  };

  // Of which process and configuration a page is: each process begins with the same number.
  const shownBy = () => `${$("#instance [data-process]")?.dataset.process} ${$("#instance a")?.textContent}`;
  const processOf = (shown) => shown.split(" ", 1)[0];
  // What the part of the page is of that is not live.
  let shown = null;

  const refresh = async (everything) => {
    if (busy) return;
    busy = true;
    try {
      const whole = everything || isLive();
      // A page that shows nothing live is asked for again only when the configuration has changed.
      const page = await load(whole ? location.href : "/versionz/");
      shown ??= shownBy();
      for (const region of all(everything ? "[data-live], [data-filtered]" : "[data-live]")) {
        replace(region, page.getElementById(region.id), everything);
      }
      const now = shownBy();
      const isOld = whole ? processOf(now) !== processOf(shown) : now !== shown;
      if (!isOld) shown = now;
      else if ($("main .answer")) setChanged();
      else if (!inUse($("main"))) {
        replace($("main"), $("main", whole ? page : await load(location.href)));
        shown = now;
      }
      setGone(false);
      lastAnswer = new Date().toLocaleTimeString();
      say(lastAnswer);
    } catch (error) {
      // An answer that is an error is one of a server that is there.
      if (error instanceof TypeError || error.name === "TimeoutError" || error.name === "AbortError") setGone(true);
      say("no answer", true);
    } finally {
      busy = false;
      markPlots();
    }
  };

  const tick = async () => {
    if (!paused && !document.hidden) await refresh(false);
    setTimeout(tick, isLive() ? PACE : LIGHT_PACE);
  };

  const setPaused = (value) => {
    paused = value;
    stored("ctrlz-paused", value ? "yes" : "no");
    const button = $("#pause");
    button.textContent = value ? "Resume" : "Pause";
    button.setAttribute("aria-pressed", String(value));
    markPlots();
    if (!value) refresh(false);
  };

  const nextTheme = () => {
    const theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    applyTheme(theme);
    stored("ctrlz-theme", theme);
    say(`theme: ${theme}`);
  };

  // Filtering while one types: the server filters, the address says what is shown.
  const watchFilter = () => {
    const field = $("#filter");
    if (!field) return;
    let timer;
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const address = new URL(location.href);
        if (field.value) address.searchParams.set("q", field.value);
        else address.searchParams.delete("q");
        history.replaceState(null, "", address);
        refresh(true);
      }, 150);
    });
    // Without a region to replace, the form is sent as it is.
    field.form.addEventListener("submit", (event) => {
      if ($("main [data-live], main [data-filtered]")) event.preventDefault();
    });
  };

  const ask = (question) => new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.className = "ask";
    const text = document.createElement("p");
    text.textContent = question;
    const form = document.createElement("form");
    form.method = "dialog";
    for (const [value, label, style] of [["no", "Cancel", ""], ["yes", "Yes", "danger"]]) {
      const button = document.createElement("button");
      button.value = value;
      button.textContent = label;
      button.className = style;
      form.append(button);
    }
    dialog.append(text, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.dataset.confirm && !form.dataset.confirmed) {
      event.preventDefault();
      if (await ask(form.dataset.confirm)) {
        form.dataset.confirmed = "yes";
        form.requestSubmit();
      }
      return;
    }
    if (form.matches("[data-quiet]")) {
      event.preventDefault();
      const body = new URLSearchParams(new FormData(form));
      try {
        const response = await fetch(form.action, { method: "POST", body });
        if (!response.ok) throw new Error(await response.text());
        document.activeElement?.blur();
        await refresh(true);
        say("saved");
      } catch (error) {
        say(String(error.message || error).slice(0, 80), true);
      }
    }
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form?.requestSubmit();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = $(button.dataset.copy)?.textContent ?? "";
    try {
      await navigator.clipboard.writeText(text);
      say("copied");
    } catch {
      say("could not copy", true);
    }
  });

  // Keys: g and a letter go to a topic, the others are in the list that ? shows.
  let leading = 0;
  const step = (by) => {
    const links = all("nav.topics a");
    const here = links.findIndex((link) => link.getAttribute("aria-current") === "page");
    const next = links[(here + by + links.length) % links.length];
    if (next) location.href = next.href;
  };
  const keys = {
    "/": () => { const field = $("#filter"); field?.focus(); field?.select(); },
    "p": () => setPaused(!paused),
    "t": nextTheme,
    "[": () => step(-1),
    "]": () => step(1),
    "?": () => $("#help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if ($("dialog[open]")) return;
    if (Date.now() - leading < 1500) {
      leading = 0;
      const link = $(`nav.topics a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.href = link.href; return; }
    }
    if (event.key === "g") { leading = Date.now(); return; }
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // Watches the end of the process.
  const watchStop = () => {
    const place = $("[data-stopping]");
    if (!place) return false;
    const look = async () => {
      try {
        await fetch("/homej/", { cache: "no-store" });
        setTimeout(look, 500);
      } catch {
        place.textContent = "The process has ended.";
        place.classList.add("good");
        say("ended");
      }
    };
    look();
    return true;
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (!$("#pause")) return;
    for (const id of ["#pause", "#theme", "#keys"]) $(id).hidden = false;
    for (const button of all("[data-copy]")) button.hidden = false;
    $("#pause").addEventListener("click", () => setPaused(!paused));
    $("#theme").addEventListener("click", nextTheme);
    $("#keys").addEventListener("click", keys["?"]);
    watchFilter();
    if (watchStop()) return;
    if (paused) setPaused(true);
    say(new Date().toLocaleTimeString());
    setTimeout(tick, isLive() ? PACE : LIGHT_PACE);
  });
})();
