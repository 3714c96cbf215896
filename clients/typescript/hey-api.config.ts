// Silent, and without a file of its log.
const logs = { file: false, level: "silent" };

export default ["workflow", "margin"].map((name) => ({
  input: `${process.env.DOCUMENTS}/openapi-${name}.json`,
  // Node wants the extension in imports.
  output: { path: `hey-api/${name}`, module: { extension: ".js" } },
  plugins: ["@hey-api/client-fetch", "@hey-api/sdk", "@hey-api/typescript"],
  logs,
}));
