// Builds the page into src/holdfast/web/static. The same sources give the same bytes on every machine.
//   node build.mjs [--out DIRECTORY]

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const out = flag > 0 ? resolve(process.argv[flag + 1]) : join(here, "../src/holdfast/web/static");
const assets = join(out, "assets");
const LARGEST_GZIPPED = 200 * 1024;

async function bundle(entry, options = {}) {
  const result = await build({
    entryPoints: [join(here, entry)],
    absWorkingDir: here,
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: ["es2022", "safari16"],
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
    outdir: out,
    jsx: "automatic",
    jsxImportSource: "preact",
    ...options,
  });
  return result.outputFiles[0].contents;
}

function put(stem, extension, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const name = `${stem}-${hash}.${extension}`;
  writeFileSync(join(assets, name), content);
  sizes.push([name, content.length, gzipSync(content, { level: 9 }).length]);
  return name;
}

const sizes = [];
rmSync(out, { recursive: true, force: true });
mkdirSync(assets, { recursive: true });

const view = put("view", "js", await bundle("src/view/index.ts"));
const separateReducer = {
  name: "the reducer is a file of its own",
  setup(plugins) {
    plugins.onResolve({ filter: /(^|\/)view$/ }, () => ({ path: `./${view}`, external: true }));
  },
};
const app = put("app", "js", await bundle("src/main.tsx", { plugins: [separateReducer] }));
const style = put("style", "css", await bundle("src/style.css"));
const icon = put("icon", "svg", readFileSync(join(here, "src/icon.svg")));
const manifest = put(
  "manifest",
  "webmanifest",
  JSON.stringify({
    name: "Holdfast",
    short_name: "Holdfast",
    start_url: "/",
    display: "standalone",
    background_color: "#101412",
    theme_color: "#101412",
    icons: [{ src: `/assets/${icon}`, sizes: "any", type: "image/svg+xml" }],
  }),
);
const names = { app, view, style, icon, manifest };
const page = readFileSync(join(here, "src/index.html"), "utf8").replace(/\{(\w+)\}/g, (whole, name) => names[name] ?? whole);
writeFileSync(join(out, "index.html"), page);

const total = sizes.reduce((sum, [, , gzipped]) => sum + gzipped, 0);
for (const [name, bytes, gzipped] of sizes) console.log(`${String(gzipped).padStart(8)} gzipped ${String(bytes).padStart(8)}  ${name}`);
console.log(`${String(total).padStart(8)} gzipped in total`);
if (total > LARGEST_GZIPPED) {
  console.error(`the page must not be larger than ${LARGEST_GZIPPED} bytes gzipped`);
  process.exit(1);
}
