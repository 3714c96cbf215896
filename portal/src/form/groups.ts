//! Where each field of a request stands in its form. A field of the document that has no place fails the build.
import type { Schemas } from "../api/client.ts";

/** Fields that belong together; `seldom` ones are folded. */
export type Group<Name extends string> = { title: string; often: readonly Name[]; seldom: readonly Name[] };

type System = keyof Schemas["SystemBuildRequest"];
type Job = keyof Schemas["JobCreateParams"];
type Analysis = keyof Schemas["AnalysisRequest"];
type Margin = keyof Schemas["MarginJobRequest"];

export const SYSTEM = [
  { title: "What is in the box", often: ["protein", "chain_id", "pH"], seldom: ["keep_Hs", "built"] },
  { title: "The box", often: ["box_name", "box_shape", "minimum_padding"], seldom: ["membrane"] },
  { title: "Solvent and ions", often: ["water_type", "ions", "concentration"], seldom: [] },
  { title: "Force field", often: ["force_field"], seldom: ["seed"] },
] as const satisfies readonly Group<System>[];

/** One row a ligand; the request has an array of each. */
export const LIGAND = [
  "ligands", "ligand_residue_names", "ligand_input_formats", "ligand_translations", "ligand_rotations",
] as const satisfies readonly System[];

export const JOB = [
  { title: "Conditions", often: ["temperature", "pressure"], seldom: ["surface_tension"] },
  {
    title: "Integration",
    often: ["integration_timestep", "minimization_steps"],
    seldom: ["friction", "non_bonded_cutoff", "ewald_error_tolerance", "seed", "engine"],
  },
  { title: "Output", often: ["batch_name"], seldom: ["batch_index", "trajectory_output_format"] },
] as const satisfies readonly Group<Job>[];

/** Fields of masks; of an analysis a line each, of a stage one alone. */
export const MASKS = {
  analysis: [
    "rmsd_masks", "rmsf_masks", "distance_masks", "hbond_masks", "contact_masks", "gyration_masks", "surface_masks",
    "secondary_structure_masks",
  ],
  stage: ["restraint_mask"],
} as const satisfies { analysis: readonly Analysis[]; stage: readonly (keyof Schemas["EquilibrationStep"])[] };

/** What has a form of its own. */
export const JOB_PARTS = ["box_id", "equilibration", "production"] as const satisfies readonly Job[];

export const STAGE = ["type", "time", "restraint_mask", "restraint_force", "traj_freq", "log_freq"] as const satisfies
  readonly (keyof Schemas["EquilibrationStep"])[];
export const PRODUCTION = ["type", "time", "traj_freq", "log_freq"] as const satisfies
  readonly (keyof Schemas["ProductionParams"])[];

/** Each kind of analysis with the fields that belong to it alone. */
export const ANALYSIS = [
  { title: "Deviation (RMSD)", often: ["rmsd_masks"], seldom: ["reference_frame", "reference_job", "reference_system", "reference_file"] },
  { title: "Fluctuation (RMSF)", often: ["rmsf_masks"], seldom: [] },
  { title: "Distances", often: ["distance_masks"], seldom: [] },
  { title: "Hydrogen bonds", often: ["hbond_masks"], seldom: ["hbond_criterion", "hbond_distance", "hbond_angle"] },
  { title: "Contacts", often: ["contact_masks"], seldom: ["contact_distance"] },
  { title: "Radius of gyration", often: ["gyration_masks"], seldom: [] },
  { title: "Surface", often: ["surface_masks"], seldom: ["surface_probe"] },
  { title: "Secondary structure", often: ["secondary_structure_masks"], seldom: [] },
  { title: "Frames", often: ["downsample_frames"], seldom: ["first_frame", "last_frame", "skip_damaged_frames"] },
] as const satisfies readonly Group<Analysis>[];

/** What the page of a job fills in by itself, and what belongs to trajectories that are no job's. */
export const ANALYSIS_PARTS = ["job_id", "allow_unfinished", "topology", "trajectory"] as const satisfies
  readonly Analysis[];

export const MARGIN = [
  {
    title: "Calculation",
    often: ["marginDate", "timeHorizonDays", "numScenarios"],
    seldom: ["volatilityLookbackDays", "ewmaDecayFactor", "volatilityMultiplier", "seed"],
  },
  {
    title: "Margin",
    often: ["riskMeasure", "confidenceLevel"],
    seldom: ["volatilityFloor", "stressWeight", "resultCurrency", "worstScenarios", "includeLosses"],
  },
] as const satisfies readonly Group<Margin>[];
export const HISTORY = [
  "startDate",
  "endDate",
  "addedDates",
  "excludedDates",
  "stressStartDate",
  "stressEndDate",
] as const satisfies readonly (keyof Schemas["HistoricalSettings"])[];
export const MARGIN_PARTS = ["settings", "portfolio"] as const satisfies readonly Margin[];

type PlacedIn<Groups extends readonly Group<string>[]> = Groups[number]["often" | "seldom"][number];
type Missing<All, Placed> = Exclude<All, Placed>;

const _isComplete: [
  Missing<System, PlacedIn<typeof SYSTEM> | (typeof LIGAND)[number]>,
  Missing<Job, PlacedIn<typeof JOB> | (typeof JOB_PARTS)[number]>,
  Missing<keyof Schemas["EquilibrationStep"], (typeof STAGE)[number]>,
  Missing<keyof Schemas["ProductionParams"], (typeof PRODUCTION)[number]>,
  Missing<Analysis, PlacedIn<typeof ANALYSIS> | (typeof ANALYSIS_PARTS)[number]>,
  Missing<keyof Schemas["HistoricalSettings"], (typeof HISTORY)[number]>,
  Missing<Margin, PlacedIn<typeof MARGIN> | (typeof MARGIN_PARTS)[number]>,
] extends [never, never, never, never, never, never, never] ? true : never = true;
void _isComplete;
