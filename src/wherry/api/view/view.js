// A window on the server's REST API: the list of runs, and one run with its log, curves and files.

const API = "/api/v1";
const main = document.getElementById("main");
const chooser = document.getElementById("workspace");
const ENDED = new Set(["Completed", "Failed", "Canceled"]);
const IMAGES = /\.(png|jpe?g|gif|svg|webp)$/i;
let page = new AbortController();

// The token comes once behind the '#', which browsers never send, and stays in this tab.
const handed = location.hash.match(/token=([0-9A-Za-z._-]+)/);
if (handed) {
  sessionStorage.setItem("token", handed[1]);
  history.replaceState(null, "", location.hash.replace(/[?&]?token=[^&]*/, ""));
}

class Problem extends Error {
  constructor(status, body) { super(body.detail || "the server did not answer"); this.status = status; this.hint = body.hint; }
}

async function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("token") || ""}` };
  const reply = await fetch(API + path, { ...options, headers, signal: options.signal || page.signal });
  if (!reply.ok) throw new Problem(reply.status, await reply.json().catch(() => ({})));
  return reply;
}

async function read(path) {
  const text = await (await call(path)).text();
  // Metrics may hold what JSON cannot: they are drawn as gaps.
  try { return JSON.parse(text); } catch { return JSON.parse(text.replace(/(?<=[:,\[])(NaN|-?Infinity)(?=[,\]}])/g, "null")); }
}

function make(tag, fields = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const when = (time) => (time ? new Date(time).toLocaleString() : "");
function lasted(run) {
  if (!run.started_at) return "";
  const end = run.ended_at ? new Date(run.ended_at) : new Date();
  const seconds = Math.max(0, (end - new Date(run.started_at)) / 1000);
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 3600)}:${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}
const badge = (run) => make("span", { class: `status ${run.status}` }, run.status);
const bytes = (size) => (size < 1000 ? `${size} B` : size < 1e6 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`);
const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function showList() {
  const signal = page.signal;
  const body = make("tbody");
  const head = ["run", "experiment", "status", "submitted", "took", ""].map((name) => make("th", {}, name));
  main.replaceChildren(make("h1", {}, "Runs"), make("div", { class: "card" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), body)));
  while (!signal.aborted) {
    const found = await read(`/workspaces/${encodeURIComponent(chooser.value)}/runs?limit=100`);
    if (signal.aborted) return;
    body.replaceChildren(...(found.items.length ? found.items.map(listed) : [make("tr", {}, make("td", { colspan: 6, class: "soft" }, "No runs yet. Start one with: wherry run train.py"))]));
    await pause(2000);
  }
}

function listed(run) {
  const name = run.display_name ? `${run.display_name} (${run.id})` : run.id;
  return make("tr", {},
    make("td", {}, make("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, name)),
    make("td", {}, run.experiment), make("td", {}, badge(run)), make("td", {}, when(run.submitted_at)),
    make("td", { class: "number" }, lasted(run)), make("td", { class: "soft" }, run.message));
}

async function showRun(id) {
  const signal = page.signal;
  const path = `/runs/${encodeURIComponent(id)}`;
  const facts = make("div", { class: "card" }), curves = make("div", { class: "grid" }), images = make("div", { class: "grid images" });
  const files = make("div", { class: "card" }), log = make("pre", { class: "log", tabindex: 0 });
  const title = make("h1", {}, id);
  main.replaceChildren(title, facts, curves, images, make("div", { class: "card" }, make("h2", {}, "Log"), log), files);
  const shown = new Map();
  follow(path, log, signal);
  while (!signal.aborted) {
    const run = await read(path);
    if (signal.aborted) return;
    title.textContent = run.display_name || run.id;
    facts.replaceChildren(...describe(run, path));
    drawMetrics(curves, (await read(`${path}/metrics`)).metrics);
    const stored = (await read(`${path}/files`)).items;
    files.replaceChildren(make("h2", {}, "Files"), make("table", {}, ...stored.map((file) => fileRow(path, file))));
    await showImages(images, shown, path, stored);
    if (ENDED.has(run.status)) return;
    await pause(1000);
  }
}

function describe(run, path) {
  const entries = [["status", badge(run)], ["run", run.id], ["experiment", run.experiment], ["target", run.target || "this program"],
    ["submitted", when(run.submitted_at)], ["took", lasted(run)]];
  if (run.message) entries.splice(1, 0, [ENDED.has(run.status) ? "because" : "now", run.message]);
  if (run.spec) entries.push(["command", [run.spec.script || run.spec.command].concat(run.spec.arguments || []).flat().join(" ")]);
  const labels = Object.entries(run.tags).map(([key, value]) => (value ? `${key}=${value}` : key)).join(", ");
  if (labels) entries.push(["tags", labels]);
  const list = make("dl", {}, ...entries.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const stop = make("button", { class: "danger", onclick: () => call(`${path}/cancel`, { method: "POST" }) }, "Cancel");
  return ENDED.has(run.status) ? [list] : [list, make("p", {}, stop)];
}

function drawMetrics(place, metrics) {
  const drawn = Object.entries(metrics).filter(([, value]) => !String(value).startsWith("aml://"));
  const charts = drawn.map(([name, value]) => {
    const numbers = Array.isArray(value) && value.every((each) => each === null || typeof each === "number");
    const last = Array.isArray(value) ? value[value.length - 1] : value;
    const text = typeof last === "object" && last !== null ? JSON.stringify(last).slice(0, 60) : short(last);
    const chart = make("div", { class: "chart" }, make("span", { class: "value" }, text), make("h2", {}, name));
    if (numbers && value.length > 1) chart.append(line(value), bounds(value));
    return chart;
  });
  place.replaceChildren(...charts);
}

function bounds(values) {
  const known = values.filter((value) => value !== null);
  const text = `${values.length} values, from ${short(Math.min(...known))} to ${short(Math.max(...known))}`;
  return make("small", { class: "soft" }, text);
}

function line(values) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  let open = false;
  const steps = values.map((value, index) => {
    if (value === null) { open = false; return ""; }
    const word = open ? "L" : "M"; open = true;
    return `${word}${((index / (values.length - 1)) * 100).toFixed(2)} ${(95 - ((value - low) / span) * 90).toFixed(2)}`;
  });
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 100"); svg.setAttribute("preserveAspectRatio", "none");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", steps.join("")); svg.append(path);
  return svg;
}

const fileUrl = (path, name) => `${path}/files/${name.split("/").map(encodeURIComponent).join("/")}`;

function fileRow(path, file) {
  const save = async (event) => {
    event.preventDefault();
    const url = URL.createObjectURL(await (await call(fileUrl(path, file.path))).blob());
    make("a", { href: url, download: file.path.split("/").pop() }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  return make("tr", {}, make("td", {}, make("a", { href: "#", onclick: save }, file.path)), make("td", { class: "number" }, bytes(file.size)));
}

async function showImages(place, shown, path, stored) {
  for (const file of stored.filter((each) => IMAGES.test(each.path) && each.size < 2e7)) {
    if (shown.get(file.path) === file.digest) continue;
    shown.set(file.path, file.digest);
    const url = URL.createObjectURL(await (await call(fileUrl(path, file.path))).blob());
    place.append(make("div", { class: "chart" }, make("h2", {}, file.path), make("img", { src: url, alt: file.path })));
  }
}

async function follow(path, log, signal) {
  const decoder = new TextDecoder();
  let offset = 0;
  while (!signal.aborted) {
    try {
      const reply = await call(`${path}/logs/user_logs/std_log.txt?follow=true&offset=${offset}`, { signal });
      const reader = reply.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        offset += value.length;
        const low = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
        log.textContent = (log.textContent + decoder.decode(value, { stream: true })).slice(-500000);
        if (low) log.scrollTop = log.scrollHeight;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Problem) return;
      await pause(1000);
    }
  }
}

function askForToken(error) {
  const field = make("input", { type: "password", size: 40, "aria-label": "token" });
  const enter = (event) => { event.preventDefault(); sessionStorage.setItem("token", field.value.trim()); start(); };
  main.replaceChildren(make("div", { class: "card" }, make("h1", {}, "Who are you?"),
    make("p", {}, error.status === 401 && sessionStorage.getItem("token") ? "That token is not valid. " : "", "Paste the server's token; it is in the file ", make("code", {}, "token"), " of its home (~/.wherry). ", make("code", {}, "wherry open"), " brings you here with it."),
    make("form", { class: "row", onsubmit: enter }, field, make("button", {}, "Enter"))));
  field.focus();
}

async function start() {
  page.abort();
  page = new AbortController();
  const { signal } = page;
  try {
    const chosen = location.hash.match(/[?&]workspace=([^&]+)/);
    const names = (await read("/workspaces")).items.map((each) => each.name);
    const wanted = chosen ? decodeURIComponent(chosen[1]) : sessionStorage.getItem("workspace");
    chooser.replaceChildren(...names.map((name) => make("option", {}, name)));
    chooser.value = names.includes(wanted) ? wanted : names[0];
    const run = location.hash.match(/#\/runs\/([^?&]+)/);
    await (run ? showRun(decodeURIComponent(run[1])) : showList());
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) { askForToken(error); return; }
    main.replaceChildren(make("div", { class: "card" }, make("h1", {}, error.message), make("p", { class: "soft" }, error.hint || "The page tries again in a moment.")));
    if (!(error instanceof Problem)) { await pause(2000); if (!signal.aborted) start(); }
  }
}

chooser.addEventListener("change", () => { sessionStorage.setItem("workspace", chooser.value); location.hash = "#/"; start(); });
addEventListener("hashchange", start);
start();
