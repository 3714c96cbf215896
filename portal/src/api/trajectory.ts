//! The structure of a system and the frames of a job, of the atoms that a mask selects.
import { expectData, molbox, type Schemas } from "./client.ts";

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

/** Which atoms of a built system a mask selects. */
export function selectionOf(system_id: string, mask: string, signal: AbortSignal): Promise<Schemas["MaskSelection"]> {
  return expectData(molbox.GET("/info/system/{system_id}/atoms", {
    params: { path: { system_id }, query: { mask } }, signal,
  }));
}

/** Ranges of the DCD file of a job's trajectory; the bytes from one place up to, not including, another. */
export function trajectoryOf(job_id: string, mask: string | undefined) {
  return async (from: number, to: number): Promise<{ bytes: ArrayBuffer; size: number }> => {
    const answer = await molbox.GET("/retrieve/job/{job_id}/trajectory", {
      params: {
        path: { job_id },
        query: mask === undefined ? {} : { mask },
        header: { Range: `bytes=${from}-${to - 1}` },
      },
      parseAs: "arrayBuffer",
    });
    const bytes = await expectData(Promise.resolve(answer));
    const size = Number(answer.response.headers.get("content-range")?.split("/")[1]);
    if (!(bytes instanceof ArrayBuffer) || !Number.isFinite(size)) throw new Error("the service sent no part of the file");
    return { bytes, size };
  };
}
