//! What a simulation can begin with. A preset that the document no longer admits does not compile.
import type { Schemas } from "../api/client.ts";

export type Preset = { name: string; about: string; job: Schemas["JobCreateParams"] };

const HEAVY_SOLUTE = "!:HOH,LI,NA,K,RB,CS,F,CL,BR,I&!@/H";

export const PRESETS: readonly Preset[] = [
  {
    name: "Look",
    about: "0.1 ns: whether it runs",
    job: {
      integration_timestep: 4,
      equilibration: [
        { type: "NVT", time: 0.01, restraint_mask: HEAVY_SOLUTE, restraint_force: 1000 },
        { type: "NPT", time: 0.02 },
      ],
      production: { time: 0.1, traj_freq: 250, log_freq: 250 },
    },
  },
  { name: "Default", about: "1 ns, as the document has it", job: { production: {} } },
  {
    name: "Production",
    about: "10 ns with 4 fs",
    job: {
      integration_timestep: 4,
      equilibration: [
        { type: "NVT", time: 0.1, restraint_mask: HEAVY_SOLUTE, restraint_force: 1000 },
        { type: "NPT", time: 0.1, restraint_mask: "@CA", restraint_force: 200 },
        { type: "NPT", time: 0.1 },
      ],
      production: { time: 10, traj_freq: 2500, log_freq: 1250 },
    },
  },
  {
    name: "Membrane",
    about: "1 ns after restraints that go in steps, so that lipids close around the protein first",
    job: {
      integration_timestep: 2,
      equilibration: [
        { type: "NVT", time: 0.125, restraint_mask: HEAVY_SOLUTE, restraint_force: 1000 },
        { type: "NPT", time: 0.25, restraint_mask: "@N,CA,C,O", restraint_force: 500 },
        { type: "NPT", time: 0.25, restraint_mask: "@CA", restraint_force: 100 },
        { type: "NPT", time: 0.5 },
      ],
      production: { time: 1, traj_freq: 5000, log_freq: 2500 },
    },
  },
];
