// A window on the server's REST API: runs, one run with its log, curves and files, runs compared, and compute targets.

const API = "/api/v1";
const main = document.getElementById("main");
const chooser = document.getElementById("workspace");
const notice = document.getElementById("notice");
const ENDED = new Set(["Completed", "Failed", "Canceled"]);
const IMAGES = /\.(png|jpe?g|gif|svg|webp)$/i;
const LISTED = 100, POINTS = 1000, ROWS = 50, LOG = 500000, METRICS = 4, OUTLINE = 500, COLORS = 8;
let page = new AbortController();

// A link that MLflow's clients print is led here with its workspace before the '#'.
const named = location.search.match(/^\?workspace=([^&]+)/);
if (named) {
  sessionStorage.setItem("workspace", decodeURIComponent(named[1]));
  history.replaceState(null, "", location.pathname + location.hash);
}

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
  const text = await patiently(async () => (await call(path)).text());
  // Metrics may hold what JSON cannot: they are drawn as gaps.
  try { return JSON.parse(text); } catch { return JSON.parse(text.replace(/(?<=[:,\[])(NaN|-?Infinity)(?=[,\]}])/g, "null")); }
}

// A server that is away comes back: what is on the page stays.
async function patiently(act) {
  const { signal } = page;
  for (;;) {
    try { const found = await act(); notice.textContent = ""; return found; } catch (error) {
      if (error instanceof Problem || signal.aborted) throw error;
      notice.textContent = "The server does not answer; trying again. Any wherry command starts one.";
      await pause(2000);
    }
  }
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
const colored = (state, color = state) => make("span", { class: `status ${color}` }, state);
const badge = (run) => colored(run.status);
const UNITS = ["kB", "MB", "GB"];
function bytes(size) {
  if (size < 1000) return `${size} B`;
  const unit = Math.min(UNITS.length, Math.floor(Math.log10(size) / 3));
  return `${(size / 1000 ** unit).toFixed(1)} ${UNITS[unit - 1]}`;
}
const short = (value) => (value === null ? "not a number" : typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function showList(asked) {
  const signal = page.signal, { experiment, filter, order } = asked;
  const table = make("div"), more = make("p", { class: "soft" }), compared = make("button", { disabled: "" }, "Compare");
  const chosen = new Set();
  const choose = (id, on) => { if (on) chosen.add(id); else chosen.delete(id); compared.disabled = chosen.size < 2; };
  compared.addEventListener("click", () => { location.hash = `#/compare${here(`&runs=${[...chosen].map(encodeURIComponent).join(",")}`)}`; });
  document.title = `${experiment || "Runs"} - Wherry`;
  main.replaceChildren(make("h1", {}, experiment ? `Runs of ${experiment}` : "Runs"),
    experiment ? make("p", {}, make("a", { href: `#/${here()}` }, "all experiments")) : "",
    make("div", { class: "card" }, filterForm(asked, compared), table, more));
  const query = [`limit=${LISTED}`, "include=metrics", ...Object.entries({ experiment, filter, order_by: order })
    .filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)].join("&");
  while (!signal.aborted) {
    let found = { items: [] }, wrong = "";
    try { found = await read(`/workspaces/${encodeURIComponent(chooser.value)}/runs?${query}`); } catch (error) {
      if (error.status !== 400) throw error;
      wrong = [error.message, error.hint].filter(Boolean).join("; ");
    }
    if (signal.aborted) return;
    const names = shownMetrics(found.items, order);
    table.replaceChildren(tableOf(make("tbody", {}, ...found.items.map((run) => listed(run, names, { chosen, choose }))),
      names.map((name) => sortLink(name, asked))));
    more.textContent = wrong || (!found.items.length ? (filter ? "No such runs." : `No runs ${experiment ? "here" : "yet"}. Start one with: wherry run train.py`)
      : found.next_cursor ? `The first ${LISTED}; wherry job list shows all.` : "");
    if (wrong) return;
    await pause(2000);
  }
}

const here = (more = "") => `?workspace=${encodeURIComponent(chooser.value)}${more}`;
const listHash = (asked) => `#/${here(Object.entries(asked).filter(([, value]) => value).map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join(""))}`;

function filterForm(asked, compared) {
  const field = make("input", { type: "search", name: "filter", size: 50, value: asked.filter || "", "aria-label": "filter",
    placeholder: "metrics.auc > 0.8 and tags.team = 'x'", spellcheck: "false" });
  const apply = (event) => { event.preventDefault(); location.hash = listHash({ ...asked, filter: field.value.trim() }); };
  return make("form", { class: "row", onsubmit: apply }, field, make("button", {}, "Filter"), compared);
}

// The metric that is sorted by, and the first few that the runs have.
function shownMetrics(runs, order) {
  const sorted = order && order.match(/^-?metrics\.(.+)$/);
  const names = new Set([...(sorted ? [plainName(sorted[1])] : []), ...runs.flatMap((run) => Object.keys(run.metrics || {}))]);
  return [...names].slice(0, METRICS);
}

const plainName = (name) => name.replace(/^`(.*)`$/, "$1");
const quoted = (name) => (/^[A-Za-z_][\w./@:-]*$/.test(name) ? name : `\`${name}\``);

// The greatest first; once more, the least.
function sortLink(name, asked) {
  const field = `metrics.${quoted(name)}`, down = asked.order === `-${field}`;
  const mark = down ? " ▼" : asked.order === field ? " ▲" : "";
  return make("a", { href: listHash({ ...asked, order: down ? field : `-${field}` }), title: `sort by ${name}` }, name + mark);
}

function tableOf(body, metrics = []) {
  return listOf(["run", "experiment", "status", ...metrics, "submitted", "took", "message"], body);
}

function listOf(names, body, more = "") {
  const head = (name) => make("th", { class: name instanceof Node ? "number" : null }, name);
  return make("table", { class: `list ${more}` }, make("thead", {}, make("tr", {}, ...names.map(head))), body);
}

// A row of a list: on a narrow page the extra is left out, the rest is put in pairs, the reason below.
function listRow(name, under, extra, state, when, took, why) {
  return make("tr", {}, make("td", { class: "name" }, name, under ? make("small", { class: "soft" }, under) : null),
    make("td", { class: "extra" }, extra), make("td", { class: "state" }, state), make("td", { class: "when" }, when),
    make("td", { class: "took" }, took), make("td", { class: "why soft" }, why));
}

const runLink = (id, text) => make("a", { href: `#/runs/${encodeURIComponent(id)}${here()}` }, text || id);
const experimentLink = (name) => make("a", { href: `#/${here(`&experiment=${encodeURIComponent(name)}`)}` }, name);

const targetLink = (name) => make("a", { href: `#/compute/${encodeURIComponent(name)}${here()}` }, name);

function listed(run, metrics = [], choice = null) {
  const row = listRow(runLink(run.id, run.display_name), run.display_name ? run.id : "", experimentLink(run.experiment),
    badge(run), when(run.submitted_at), lasted(run), run.message);
  const values = metrics.map((name) => [name, (run.metrics || {})[name]]);
  row.querySelector(".state").after(...values.map(([name, value]) => make("td", { class: "number metric", title: name }, value === undefined ? "" : short(value))));
  if (choice) row.querySelector(".name").prepend(chooserOf(run, choice));
  return row;
}

function chooserOf(run, { chosen, choose }) {
  const box = make("input", { type: "checkbox", "aria-label": `compare ${run.display_name || run.id}`, onchange: (event) => choose(run.id, event.target.checked) });
  box.checked = chosen.has(run.id);
  return box;
}

// Runs side by side: what differs, and the curves of each metric over each other.
async function showComparison(ids) {
  const signal = page.signal, facts = make("div", { class: "card" }), curves = make("div", { class: "grid" });
  document.title = `${ids.length} runs compared - Wherry`;
  main.replaceChildren(make("h1", {}, `${ids.length} runs compared`), facts, curves);
  while (!signal.aborted) {
    const runs = await Promise.all(ids.map(async (id) => {
      const path = `/runs/${encodeURIComponent(id)}`;
      const [run, told] = [await read(path), await read(`${path}/metrics/summary?points=${OUTLINE}`)];
      return { ...run, metrics: told.metrics };
    }));
    if (signal.aborted) return;
    renew(facts, runs, (items) => [differences(items)]);
    renew(curves, runs.map((run) => run.metrics), () => drawCurves(runs));
    if (runs.every((run) => ENDED.has(run.status))) return;
    await pause(3000);
  }
}

function differences(runs) {
  const lasts = (run) => Object.fromEntries(Object.entries(run.metrics).filter(([, told]) => told.kind === "scalar").map(([name, told]) => [name, short(told.last)]));
  const given = (run) => ({ arguments: ((run.spec || {}).arguments || []).join(" "), ...run.params });
  const rows = [["status", runs.map((run) => run.status)], ["took", runs.map(lasted)], ["experiment", runs.map((run) => run.experiment)],
    ...sideBySide(runs, given), ["tags", runs.map((run) => pairsOf(run.tags))], ["snapshot", runs.map((run) => (run.snapshot_id || "").slice(0, 12))], ...sideBySide(runs, lasts)];
  const differing = rows.filter(([, values]) => values.some((value) => value !== values[0]));
  const heads = runs.map((run, at) => make("th", {}, make("span", { class: `mark c${at % COLORS}` }, "■ "), runLink(run.id, run.display_name)));
  const body = differing.map(([name, values]) => make("tr", {}, make("th", {}, name), ...values.map((value) => make("td", {}, value === undefined ? "" : value))));
  return make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, "what differs"), ...heads)), make("tbody", {}, ...body));
}

function sideBySide(runs, of) {
  const found = runs.map(of), names = new Set(found.flatMap((each) => Object.keys(each)));
  return [...names].map((name) => [name, found.map((each) => each[name])]);
}

function drawCurves(runs) {
  const names = new Set(runs.flatMap((run) => Object.entries(run.metrics).filter(([, told]) => told.kind === "scalar" && told.count > 1).map(([name]) => name)));
  return [...names].map((name) => {
    const curves = runs.map((run) => pointsOf(run.metrics[name])), known = curves.flat();
    const text = known.length ? `steps ${known.reduce((a, [x]) => Math.min(a, x), Infinity)} to ${known.reduce((a, [x]) => Math.max(a, x), -Infinity)}, values from ${short(least(known.map(([, y]) => y)))} to ${short(most(known.map(([, y]) => y)))}` : "none a number";
    return make("div", { class: "chart" }, make("h2", { title: name }, name), overlay(curves), make("small", { class: "soft" }, text));
  });
}

const pointsOf = (told) => (told && told.steps ? told.steps.map((step, at) => [step, told.values[at]]).filter(([, value]) => typeof value === "number") : []);

function overlay(curves) {
  const all = curves.flat(), xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const [left, low] = all.length ? [least(xs), least(ys)] : [0, 0];
  const [width, height] = all.length ? [most(xs) - left || 1, most(ys) - low || 1] : [1, 1];
  const place = ([x, y]) => `${(((x - left) / width) * 100).toFixed(2)} ${(95 - ((y - low) / height) * 90).toFixed(2)}`;
  return drawing(...curves.map((points, at) => [points.map((point, first) => (first ? "L" : "M") + place(point)).join(""), `c${at % COLORS}`]));
}

const targets = () => `/workspaces/${encodeURIComponent(chooser.value)}/computes`;

async function showTargets() {
  const signal = page.signal, body = make("tbody");
  document.title = "Compute - Wherry";
  main.replaceChildren(make("h1", {}, "Compute"),
    make("div", { class: "card" }, listOf(["target", "where", "state", "nodes", "runs", "problem"], body, "compute")));
  while (!signal.aborted) {
    const found = (await read(targets())).items;
    if (signal.aborted) return;
    renew(body, found, (items) => items.map((target) => listRow(targetLink(target.name), target.type,
      target.location, shownState(target), openable(target) ? opener(target) : target.instance ? "" : nodesOf(target), workOf(target), target.problem || toldOf(target))));
    await pause(2000);
  }
}

async function showTarget(name) {
  const signal = page.signal, path = `${targets()}/${encodeURIComponent(name)}`;
  const facts = make("div", { class: "card" }), nodes = make("div"), hosts = make("div"), runs = make("div");
  main.replaceChildren(make("h1", {}, name), facts, nodes, hosts, runs);
  while (!signal.aborted) {
    const target = await read(path), found = await read(`${path}/runs?limit=${LISTED}`);
    const pool = target.kind === "cluster" ? await read(`/sites/${encodeURIComponent(target.location)}`) : { hosts: [] };
    if (signal.aborted) return;
    document.title = `${stateOf(target)}: ${name} - Wherry`;
    renew(facts, target, (shown) => [describeTarget(shown), shown.instance ? make("p", { class: "row" }, ...actionsOf(shown, path)) : ""]);
    renew(nodes, target.nodes, drawNodes);
    renew(hosts, pool.hosts, (items) => drawHosts(target.location, items));
    renew(runs, found.items, (items) => drawRuns(items.length ? "Runs on it and waiting for it" : "No runs on it, none waits for it", items));
    await pause(2000);
  }
}

function stateOf(target) {
  if (target.instance) return target.instance.state;
  if (target.provisioning_state !== "Succeeded") return target.provisioning_state;
  if (target.state === "Stopped") return "Stopped";
  return target.status ? target.status.allocation_state : target.problem ? "Unavailable" : "Ready";
}

const shownState = (target) => colored(stateOf(target), target.problem ? "Unavailable" : stateOf(target));

// How many there are of how many, and how they are: 2 of 0-4: 1 running, 1 idle.
function nodesOf(target) {
  const counts = target.status ? target.status.node_state_counts : {};
  const told = Object.entries(counts).filter(([, count]) => count).map(([state, count]) => `${count} ${state}`).join(", ");
  if (!target.status) return "1 node";
  const { min_nodes: least, max_nodes: most } = target.status.scale_settings;
  return `${target.status.current_node_count} of ${least === most ? most : `${least}-${most}`}${told ? `: ${told}` : ""}`;
}

function workOf(target) {
  const parts = [target.active ? `${target.active} on it` : "", target.waiting ? `${target.waiting === 1000 ? "1000 or more" : target.waiting} waiting` : ""];
  return parts.filter(Boolean).join(", ") || "no runs";
}

const owned = (each) => [!each.cpu ? "" : `${short(each.cpu)} CPU${each.cpu === 1 ? "" : "s"}`,
  each.memory_bytes ? bytes(each.memory_bytes) : "", each.gpu ? `${each.gpu} GPU${each.gpu === 1 ? "" : "s"}` : ""].filter(Boolean).join(", ");
const place = (each) => (each.address ? each.address + (each.port && each.port !== 22 ? `:${each.port}` : "") : "");

function describeTarget(target) {
  const { config } = target, errors = target.provisioning_errors.map((each) => each.message || each);
  return factsOf([
    ["state", shownState(target)], ["problem", target.problem], ["doing", target.doing], ["errors", errors.join("; ")], ["notice", target.notices.join("; ")],
    ["type", target.type], ["where", target.location === target.name ? "" : target.location], ["nodes", target.instance ? "" : nodesOf(target)],
    ["runs", workOf(target)], ["free", owned(target.free) || "nothing"], ["size", config.vm_size], ["priority", config.vm_priority],
    ...(target.instance ? describeInstance(target) : [["idle nodes go after", config.idle_seconds === undefined ? "" : `${config.idle_seconds} s`]]),
    ["description", target.description], ["tags", pairsOf(target.tags)], ["created", when(target.created_at)],
  ]);
}

// A compute instance: JupyterLab on a machine of one's own.
const openable = (target) => Boolean(target.instance && target.instance.url);
const AT_REST = new Set(["Stopped", "Stopping", "Deleting"]);

// The address comes with a code for one visit. The new tab must not have this one as its opener: it would get our token with it.
function opener(target) {
  const open = async () => {
    const { url } = await (await call(`${targets()}/${encodeURIComponent(target.name)}/open`, { method: "POST" })).json();
    make("a", { href: url, target: "_blank", rel: "noopener noreferrer" }).click();
  };
  return make("button", { onclick: (event) => acted(event, open) }, "Open JupyterLab");
}

function actionsOf(target, path) {
  const button = (name, what, look) => make("button", { class: look, onclick: (event) => acted(event, () => call(`${path}/${what}`, { method: "POST" })) }, name);
  const { state } = target.instance;
  if (state === "Deleting") return [];
  if (AT_REST.has(state)) return [button("Start", "start")];
  return [...(openable(target) ? [opener(target)] : []), button("Restart", "restart"), button("Stop", "stop", "danger")];
}

async function acted(event, act) {
  const button = event.target;
  button.disabled = true;
  try { await act(); notice.textContent = ""; } catch (error) { notice.textContent = [error.message, error.hint].filter(Boolean).join("; "); }
  setTimeout(() => { button.disabled = false; }, 2000);
}

// What comes next by itself, or what went wrong.
function toldOf(target) {
  const { errors = [], idle_stop_at: idle, next_schedule: next } = target.instance || {};
  if (errors.length) return errors.map((each) => each.message).join("; ");
  return [idle ? `stops ${when(idle)} if nobody uses it` : "", next ? `${next.action}s by schedule ${when(next.at)}` : ""].filter(Boolean).join("; ");
}

function describeInstance(target) {
  const { config, instance } = target, last = instance.last_operation;
  const idle = config.idle_seconds;
  return [
    ["went wrong", instance.errors.map((each) => each.message).join("; ")],
    ["last", last ? `${last.operation_name}${last.operation_trigger ? ` by ${last.operation_trigger}` : ""}, ${when(last.operation_time)}` : ""],
    ["stops when idle for", idle ? (idle % 60 ? `${idle} s` : `${idle / 60} min`) : "ever: it is not stopped for that"],
    ["would stop", instance.idle_stop_at ? when(instance.idle_stop_at) : ""],
    ["next by schedule", instance.next_schedule ? `${instance.next_schedule.action}, ${when(instance.next_schedule.at)}` : ""],
    ["kernels", (config.environments || []).join(", ")],
  ];
}

function drawNodes(nodes) {
  if (!nodes.length) return [];
  const rows = nodes.map((node) => listRow(node.name, place(node) === node.name ? "" : place(node), owned(node), colored(node.state),
    when(node.since), node.run_id ? runLink(node.run_id) : "", node.reason));
  return [make("div", { class: "card" }, make("h2", {}, "Nodes"), listOf(["node", "has", "state", "since", "run", "reason"], make("tbody", {}, ...rows), "compute since"))];
}

function drawHosts(site, hosts) {
  if (!hosts.length) return [];
  const rows = hosts.map((host) => listRow(host.name, place(host) === host.name ? "" : place(host), owned(host), colored(host.state),
    host.target ? `by ${host.target}` : "", host.run_id ? runLink(host.run_id) : "", host.reason));
  return [make("div", { class: "card" }, make("h2", {}, `Hosts of ${site}`), listOf(["host", "has", "state", "taken", "run", "reason"], make("tbody", {}, ...rows), "compute"))];
}

async function showRun(id) {
  const signal = page.signal;
  const path = `/runs/${encodeURIComponent(id)}`;
  const facts = make("div", { class: "card" }), metrics = make("div"), images = make("div", { class: "grid images" });
  const children = make("div"), files = make("div", { class: "card" });
  const output = make("div", { class: "card" }, make("h2", {}, "Log"), make("pre", { class: "log", tabindex: 0 }, "Nothing printed."));
  const title = make("h1", {}, id);
  main.replaceChildren(title, facts, metrics, images, output, children, files);
  const shown = new Map(), state = { ended: false };
  follow(path, output, state, signal);
  while (!signal.aborted) {
    const run = await read(path);
    if (signal.aborted) return;
    state.ended = ENDED.has(run.status);
    title.textContent = run.display_name || run.id;
    document.title = `${run.status}: ${title.textContent} - Wherry`;
    facts.replaceChildren(...describe(run, path));
    const stored = (await read(`${path}/files`)).items;
    renew(children, (await read(`${path}/children`)).items, (items) => (items.length ? drawRuns("Child runs", items) : []));
    renew(files, stored, (items) => [make("h2", {}, "Files"),
      items.length ? make("table", {}, ...items.map((file) => fileRow(path, file))) : make("p", { class: "soft" }, "None kept.")]);
    renew(metrics, (await read(`${path}/metrics`)).metrics, drawMetrics);
    await showImages(images, shown, path, stored);
    if (state.ended) return;
    await pause(1000 + metrics.drawn.length / 500); // the larger the metrics, the more rarely
  }
}

// Redraws only what has changed, so that a selection or a scrolled table stays.
function renew(place, data, draw) {
  const text = JSON.stringify(data);
  if (place.drawn !== text) { place.drawn = text; place.replaceChildren(...draw(data)); }
}

function describe(run, path) {
  const ended = ENDED.has(run.status), spec = run.spec || {}, error = run.error || {}, environment = spec.environment || {};
  const commit = run.properties["azureml.git.commit"], changed = run.properties["azureml.git.dirty"] === "True";
  const entries = [
    ["status", badge(run)], [ended ? "because" : "now", run.message],
    ["line", error.source ? make("code", {}, `${error.file}:${error.line}: ${error.source}`) : null],
    ["run", run.id], ["parent", run.parent_id ? runLink(run.parent_id) : null], ["experiment", experimentLink(run.experiment)],
    ["target", run.target ? targetLink(run.target) : "this program"], ["submitted", when(run.submitted_at)], [ended ? "took" : "so far", lasted(run)],
    ["command", [spec.script || spec.command || []].concat(spec.arguments || []).flat().join(" ")],
    ["environment", environment.specification ? [environment.name || "unnamed", environment.version].filter(Boolean).join(":") : ""],
    ["python", environment.interpreter_path], ["commit", commit ? commit.slice(0, 12) + (changed ? " (with changes)" : "") : ""],
    ["tags", pairsOf(run.tags)],
  ];
  const list = factsOf(entries);
  const cancel = (event) => {
    event.target.disabled = true;
    call(`${path}/cancel`, { method: "POST" }).catch((error) => { notice.textContent = error.message; });
  };
  return ended ? [list] : [list, make("p", {}, make("button", { class: "danger", onclick: cancel }, "Cancel"))];
}

const pairsOf = (tags) => Object.entries(tags).map(([key, value]) => (value ? `${key}=${value}` : key)).join(", ");

function factsOf(entries) {
  const known = entries.filter(([, value]) => value);
  return make("dl", {}, ...known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function drawRuns(title, runs) {
  return [make("div", { class: "card" }, make("h2", {}, title), runs.length ? tableOf(make("tbody", {}, ...runs.map((run) => listed(run)))) : "")];
}

function drawMetrics(metrics) {
  const values = [], charts = [], tables = [];
  for (const [name, value] of Object.entries(metrics)) {
    if (String(value).startsWith("aml://")) continue; // a picture: shown below
    const many = Array.isArray(value) && value.length > 1;
    if (many && value.every((each) => each === null || typeof each === "number")) charts.push(chart(name, value));
    else if (value !== null && typeof value === "object" && !Array.isArray(value)) tables.push(metricTable(name, value));
    else values.push(make("dt", {}, name), make("dd", {}, [value].flat().map(short).join(", ")));
  }
  return [
    values.length ? make("div", { class: "card" }, make("h2", {}, "Metrics"), make("dl", {}, ...values)) : "",
    make("div", { class: "grid" }, ...charts), make("div", { class: "grid" }, ...tables),
  ];
}

function chart(name, values) {
  const last = values[values.length - 1];
  return make("div", { class: "chart" }, make("span", { class: "value" }, short(last)),
    make("h2", { title: name }, name), line(values), bounds(values));
}

function metricTable(name, columns) {
  const lists = Object.values(columns).map((column) => [column].flat());
  const rows = Math.max(0, ...lists.map((column) => column.length));
  const cell = (value) => make("td", { class: typeof value === "number" ? "number" : null }, value === undefined || value === null ? "" : short(value));
  const body = Array.from({ length: Math.min(rows, ROWS) }, (_, row) => make("tr", {}, ...lists.map((column) => cell(column[row]))));
  const head = Object.keys(columns).map((column, at) => make("th", { class: typeof lists[at][0] === "number" ? "number" : null }, column));
  return make("div", { class: "chart wide" }, make("h2", { title: name }, name), make("table", {}, make("tr", {}, ...head), ...body),
    rows > ROWS ? make("small", { class: "soft" }, `the first ${ROWS} of ${rows} rows`) : null);
}

const least = (values) => values.reduce((a, b) => (b < a ? b : a));
const most = (values) => values.reduce((a, b) => (b > a ? b : a));

function bounds(values) {
  const known = values.filter((value) => value !== null);
  const text = known.length ? `${values.length} values, from ${short(least(known))} to ${short(most(known))}` : `${values.length} values, none a number`;
  return make("small", { class: "soft" }, text);
}

// At most two points, the least and the most, for each of POINTS stretches.
function thin(values) {
  const points = values.map((value, index) => [index, value]);
  const size = Math.ceil(values.length / POINTS);
  if (size < 3) return points;
  return Array.from({ length: Math.ceil(points.length / size) }, (_, at) => {
    const known = points.slice(at * size, (at + 1) * size).filter(([, value]) => value !== null);
    if (!known.length) return [[at * size, null]];
    return [known.reduce((a, b) => (b[1] < a[1] ? b : a)), known.reduce((a, b) => (b[1] > a[1] ? b : a))].sort((a, b) => a[0] - b[0]);
  }).flat();
}

function line(values) {
  const known = values.filter((value) => value !== null);
  const low = known.length ? least(known) : 0, span = known.length ? most(known) - low || 1 : 1;
  let open = false;
  const steps = thin(values).map(([index, value]) => {
    if (value === null) { open = false; return ""; }
    const word = open ? "L" : "M"; open = true;
    return `${word}${((index / (values.length - 1)) * 100).toFixed(2)} ${(95 - ((value - low) / span) * 90).toFixed(2)}`;
  });
  return drawing([steps.join(""), "c0"]);
}

function drawing(...paths) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 100"); svg.setAttribute("preserveAspectRatio", "none");
  for (const [steps, color] of paths) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", steps); path.setAttribute("class", color); svg.append(path);
  }
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
    const data = await (await call(fileUrl(path, file.path))).blob();
    // Browsers tell the other kinds from their bytes.
    const url = URL.createObjectURL(/\.svg$/i.test(file.path) ? data.slice(0, data.size, "image/svg+xml") : data);
    const drawn = [...place.querySelectorAll("img")].find((image) => image.alt === file.path);
    if (drawn) { URL.revokeObjectURL(drawn.src); drawn.src = url; continue; }
    const gone = (event) => event.target.parentElement.remove(); // half written, or no picture after all
    place.append(make("div", { class: "chart" }, make("h2", { title: file.path }, file.path), make("img", { onerror: gone, src: url, alt: file.path })));
  }
}

async function follow(path, place, state, signal) {
  const log = place.querySelector("pre"), decoder = new TextDecoder();
  let offset = 0, text = "";
  while (!signal.aborted) {
    try {
      const reply = await call(`${path}/logs/user_logs/std_log.txt?follow=true&offset=${offset}`, { signal });
      const reader = reply.body.getReader();
      const { ended } = state;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        offset += value.length;
        text = settle(text, decoder.decode(value, { stream: true }));
        if (text.length > LOG) { text = text.slice(-LOG); place.firstChild.textContent = "Log (its end; the whole is among the files)"; }
        const low = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
        log.textContent = text;
        if (low) log.scrollTop = log.scrollHeight;
      }
      if (ended) return;
    } catch (error) {
      if (signal.aborted || error instanceof Problem) return;
    }
    await pause(1000);
  }
}

// Adds to a log as a terminal would: a carriage return overwrites its line, colours are left out.
function settle(text, fresh) {
  const start = text.lastIndexOf("\n") + 1;
  const tail = (text.slice(start) + fresh).replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r+\n/g, "\n").replace(/[^\n]*\r(?=[^\r\n])/g, "");
  return text.slice(0, start) + tail;
}

function askForToken(error) {
  const field = make("input", { type: "password", size: 40, "aria-label": "token" });
  const enter = (event) => { event.preventDefault(); sessionStorage.setItem("token", field.value.trim()); start(); };
  main.replaceChildren(make("div", { class: "card" }, make("h1", {}, "Who are you?"),
    make("p", {}, error.status === 401 && sessionStorage.getItem("token") ? "That token is not valid. " : "", "Paste the server's token; it is in the file ", make("code", {}, "token"), " of its home (~/.wherry). ", make("code", {}, "wherry open"), " brings you here with it."),
    make("form", { class: "row", onsubmit: enter }, field, make("button", {}, "Enter"))));
  field.focus();
}

async function experimentName(id) {
  const known = (await read(`/workspaces/${encodeURIComponent(chooser.value)}/experiments`)).items.find((each) => each.id === id);
  return known ? known.name : null;
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
    chooser.value = names.includes(wanted) ? wanted : names.includes("default") ? "default" : names[0];
    sessionStorage.setItem("workspace", chooser.value);
    const run = location.hash.match(/#\/(?:experiments\/[^/?&]+\/)?runs\/([^/?&]+)/), said = (name) => { const found = location.hash.match(new RegExp(`[?&]${name}=([^&]+)`)); return found && decodeURIComponent(found[1]); };
    const numbered = location.hash.match(/#\/experiments\/([^/?&]+)/);
    const compute = location.hash.match(/#\/compute(?:\/([^?&]+))?/);
    for (const link of document.querySelectorAll("nav a")) link.setAttribute("aria-current", link.textContent === (compute ? "Compute" : "Runs") ? "page" : "false");
    await (run ? showRun(decodeURIComponent(run[1])) : compute ? (compute[1] ? showTarget(decodeURIComponent(compute[1])) : showTargets())
      : /^#\/compare/.test(location.hash) ? showComparison([...new Set((said("runs") || "").split(",").filter(Boolean))])
        : showList({ experiment: said("experiment") || (numbered && await experimentName(numbered[1])), filter: said("filter"), order: said("order") }));
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) { askForToken(error); return; }
    main.replaceChildren(make("div", { class: "card" }, make("h1", {}, error.message), make("p", { class: "soft" }, error.hint || "")));
  }
}

chooser.addEventListener("change", () => { sessionStorage.setItem("workspace", chooser.value); location.hash = "#/"; start(); });
addEventListener("hashchange", start);
start();
