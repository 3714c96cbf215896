const generated = (name: string) => ({
  input: `${process.env.DOCUMENTS}/openapi-${name}.json`,
  output: {
    target: `orval/${name}.ts`,
    client: "fetch",
    // Without one, requests go to no address.
    override: { mutator: { path: "./orval-send.ts", name: "send", extension: ".js" } },
  },
});

export default { workflow: generated("workflow"), margin: generated("margin") };
