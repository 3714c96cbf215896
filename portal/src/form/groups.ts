//! Where each field of a request stands in its form. A field of the document that has no place fails the build.
import type { Schemas } from "../api/client.ts";

/** Fields that belong together; `seldom` ones are folded. */
export type Group<Name extends string> = { title: string; often: readonly Name[]; seldom: readonly Name[] };

type System = keyof Schemas["SystemBuildRequest"];
type Job = keyof Schemas["JobCreateParams"];
type Analysis = keyof Schemas["AnalysisRequest"];
type Margin = keyof Schemas["MarginJobRequest"];

export const SYSTEM = [
  { title: "What is in the box", often: ["protein", "chain_id", "pH"], seldom: ["keep_Hs"] },
  { title: "The box", often: ["box_name", "box_shape", "minimum_padding"], seldom: ["membrane"] },
  { title: "Solvent and ions", often: ["water_type", "ions", "concentration"], seldom: [] },
  { title: "Force field", often: ["force_field"], seldom: ["seed", "priority"] },
] as const satisfies readonly Group<System>[];

/** Of a system that another program has built. What it holds is in its files, and nothing of it is asked for. */
export const BROUGHT = [
  { title: "Files of the system", often: ["built"], seldom: [] },
  { title: "Its name", often: ["box_name"], seldom: ["seed", "priority"] },
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
  { title: "Output", often: ["batch_name"], seldom: ["batch_index", "trajectory_output_format", "excerpt", "priority"] },
] as const satisfies readonly Group<Job>[];

/** Fields of masks; of an analysis a line each, of a stage one alone. */
export const MASKS = {
  analysis: [
    "rmsd_masks", "rmsf_masks", "distance_masks", "hbond_masks", "contact_masks", "gyration_masks", "surface_masks",
    "secondary_structure_masks", "cluster_masks", "dihedral_masks", "native_contact_masks",
    "rdf_masks", "density_masks", "pca_masks", "lipid_masks", "end_to_end_masks",
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
  { title: "Clusters of frames", often: ["cluster_masks"], seldom: ["cluster_method", "cluster_cutoff", "cluster_count"] },
  { title: "Dihedral angles", often: ["dihedral_masks"], seldom: ["dihedral_angles"] },
  { title: "Native contacts", often: ["native_contact_masks"], seldom: [] },
  { title: "Radial distribution", often: ["rdf_masks"], seldom: ["rdf_distance", "rdf_bin"] },
  { title: "Density profiles", often: ["density_masks"], seldom: ["density_axis", "density_bin"] },
  { title: "Principal components", often: ["pca_masks"], seldom: ["pca_components"] },
  { title: "Membranes", often: ["lipid_masks"], seldom: [] },
  { title: "End-to-end distance", often: ["end_to_end_masks"], seldom: [] },
  { title: "Frames", often: ["downsample_frames"], seldom: ["first_frame", "last_frame", "skip_damaged_frames", "convergence", "priority"] },
] as const satisfies readonly Group<Analysis>[];

/** What the page of a job fills in by itself, and what belongs to trajectories that are no job's. */
export const ANALYSIS_PARTS = ["job_id", "allow_unfinished", "topology", "trajectory"] as const satisfies
  readonly Analysis[];

/** What nobody needs for a first margin lies in groups that are folded: those without `often`. */
export const MARGIN = [
  { title: "Scenarios", often: ["marginDate", "timeHorizonDays", "numScenarios"], seldom: ["seed"] },
  { title: "Measure", often: ["riskMeasure", "confidenceLevel"], seldom: [] },
  {
    title: "Volatility",
    often: [],
    seldom: ["volatilityLookbackDays", "ewmaDecayFactor", "volatilityMultiplier", "volatilityFloor"],
  },
  { title: "A time of stress", often: [], seldom: ["stressWeight"] },
  { title: "Report", often: [], seldom: ["resultCurrency", "worstScenarios", "includeLosses"] },
] as const satisfies readonly Group<Margin>[];
/** Dates of the history, by the group of the margin that they stand in. */
export const HISTORY = {
  "Scenarios": ["startDate", "endDate", "addedDates", "excludedDates"],
  "A time of stress": ["stressStartDate", "stressEndDate"],
} as const satisfies Partial<Record<(typeof MARGIN)[number]["title"], readonly (keyof Schemas["HistoricalSettings"])[]>>;
export const MARGIN_PARTS = ["settings", "portfolio", "portfolios"] as const satisfies readonly Margin[];

type PlacedIn<Groups extends readonly Group<string>[]> = Groups[number]["often" | "seldom"][number];
type Missing<All, Placed> = Exclude<All, Placed>;

const _isComplete: [
  Missing<System, PlacedIn<typeof SYSTEM> | PlacedIn<typeof BROUGHT> | (typeof LIGAND)[number]>,
  Missing<Job, PlacedIn<typeof JOB> | (typeof JOB_PARTS)[number]>,
  Missing<keyof Schemas["EquilibrationStep"], (typeof STAGE)[number]>,
  Missing<keyof Schemas["ProductionParams"], (typeof PRODUCTION)[number]>,
  Missing<Analysis, PlacedIn<typeof ANALYSIS> | (typeof ANALYSIS_PARTS)[number]>,
  Missing<keyof Schemas["HistoricalSettings"], (typeof HISTORY)[keyof typeof HISTORY][number]>,
  Missing<Margin, PlacedIn<typeof MARGIN> | (typeof MARGIN_PARTS)[number]>,
] extends [never, never, never, never, never, never, never] ? true : never = true;
void _isComplete;
