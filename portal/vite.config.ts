//! How the portal is built, and how it is served while somebody works on it.
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const DEVELOPMENT = "/local/portal/";

/** What molboxd puts into the page when it serves it. */
const base: Plugin = {
  name: "base",
  apply: "serve",
  transformIndexHtml: (html) => html.replace("<head>", `<head><base href="${DEVELOPMENT}">`),
};

export default defineConfig(({ command }) => ({
  plugins: [react(), base],
  // One build is served below any stage.
  base: command === "build" ? "./" : DEVELOPMENT,
  build: {
    target: "es2023",
    // `dist/README` is committed; `cargo xtask portal` removes the rest.
    emptyOutDir: false,
    // Nothing is inlined: the page's policy takes no fonts and no scripts from `data:`.
    assetsInlineLimit: 0,
    // What is built in is MIT, whose notice goes along.
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 3000,
  },
  server: {
    // The example's structure lies beside the portal.
    fs: { allow: [".."] },
    proxy: {
      [`^/local/(?!portal/)`]: process.env["MOLBOX_URL"] ?? "http://127.0.0.1:8080",
    },
  },
}));
