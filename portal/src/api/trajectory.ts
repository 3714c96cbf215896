//! The structure of a system and the frames of a job, of the atoms that a mask selects.
import { type Answer, expectData, molbox, type Schemas } from "./client.ts";

/** What is left out of pictures, as topologies name it: it hides what people look for. */
const WATER = "HOH";
const IONS = ["NA", "CL", "K", "LI", "CS", "RB", "BR", "F", "I", "MG", "CA", "ZN"];

/** Everything but water and ions; nothing where there is nothing else. */
export function soluteMask({ molecules }: Schemas["SystemSummary"]): string | undefined {
  const names = Object.keys(molecules);
  const ions = names.filter((name) => IONS.includes(name));
  const hasSolute = names.some((name) => name !== "water" && !ions.includes(name));
  return hasSolute ? `!:${[WATER, ...ions].join(",")}` : undefined;
}

/** The built structure as mmCIF. */
export async function structureOf(system_id: string, mask: string | undefined): Promise<string> {
  return await expectData(molbox.GET("/retrieve/system/{system_id}/structure", {
    params: { path: { system_id }, query: mask === undefined ? {} : { mask } }, parseAs: "text",
  })) as string;
}

/** Atoms of a registered structure as mmCIF. */
export async function fileStructureOf(file_id: string, mask: string): Promise<string> {
  return await expectData(molbox.GET("/retrieve/file/{file_id}/structure", {
    params: { path: { file_id }, query: mask === "" ? {} : { mask } }, parseAs: "text",
  })) as string;
}

/** Names of water in structures from elsewhere. */
const WATERS = [WATER, "WAT", "SOL", "TIP3", "TIP3P", "TP3", "TIP4", "TIP4P", "TP4", "TIP5", "SPC", "H2O", "DOD"];

/** The same mask for a structure from elsewhere, by what it contains; empty for all atoms. */
export function contentsMask({ chains, heterogens }: Schemas["StructureContents"]): string {
  const ions = heterogens.filter(({ kind }) => kind === "ion").map(({ name }) => name);
  const hasSolute = chains.some(({ kinds }) => kinds.some((kind) => kind !== "water" && kind !== "ion"));
  return hasSolute ? `!:${[...WATERS, ...ions].join(",")}` : "";
}

/** Which atoms of a built system a mask selects. */
export function selectionOf(system_id: string, mask: string, signal: AbortSignal): Promise<Schemas["MaskSelection"]> {
  return expectData(molbox.GET("/info/system/{system_id}/atoms", {
    params: { path: { system_id }, query: { mask } }, signal,
  }));
}

/** Bytes of a file from one place up to, not including, another; and how many the whole file has. */
type ReadRange = (from: number, to: number) => Promise<{ bytes: ArrayBuffer; size: number }>;

/** The DCD file of a stage of a job, of its last where none is named, by ranges. */
export function trajectoryOf(job_id: string, mask: string | undefined, stage?: string): ReadRange {
  const query = { ...(mask === undefined ? {} : { mask }), ...(stage === undefined ? {} : { stage }) };
  return ranges((Range) => molbox.GET("/retrieve/job/{job_id}/trajectory", {
    params: { path: { job_id }, query, header: { Range } }, parseAs: "arrayBuffer",
  }));
}

/** The same of a registered trajectory, whose atoms a registered structure names. */
export function fileTrajectoryOf(file_id: string, topology: string, mask: string): ReadRange {
  const query = { topology, ...(mask === "" ? {} : { mask }) };
  return ranges((Range) => molbox.GET("/retrieve/file/{file_id}/trajectory", {
    params: { path: { file_id }, query, header: { Range } }, parseAs: "arrayBuffer",
  }));
}

/** Atoms and frames of a job's trajectory, as they are asked for. */
export type Part = { stage: string; mask: string; stride: number };

/** How much a part of a trajectory is; of a job that runs, so far. */
export async function sizeOf(job_id: string, part: Part, signal: AbortSignal): Promise<{ atoms: number; frames: number; bytes: number }> {
  const { response, ...answer } = await molbox.GET("/retrieve/job/{job_id}/trajectory", {
    params: { path: { job_id }, query: part, header: { Range: "bytes=0-0" } }, parseAs: "arrayBuffer", signal,
  });
  await expectData(Promise.resolve({ response, ...answer }));
  const numberIn = (header: string) => Number(response.headers.get(header)?.split("/").at(-1));
  return { atoms: numberIn("x-atoms"), frames: numberIn("x-frames"), bytes: numberIn("content-range") };
}

function ranges(get: (range: string) => Promise<Answer<unknown>>): ReadRange {
  return async (from, to) => {
    const answer = await get(`bytes=${from}-${to - 1}`);
    const bytes = await expectData(Promise.resolve(answer));
    const size = Number(answer.response.headers.get("content-range")?.split("/")[1]);
    if (!(bytes instanceof ArrayBuffer) || !Number.isFinite(size)) throw new Error("the service sent no part of the file");
    return { bytes, size };
  };
}
