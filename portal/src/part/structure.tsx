//! The picture of a registered file.
import { lazy, Suspense } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { Notice } from "./notice.tsx";
import { bytes } from "./number.ts";

type FileRecord = Schemas["FileRecord"];

const Viewer = lazy(() => import("../viewer/viewer.tsx"));

/** Formats that the viewer reads. Trajectories have no atoms of their own. */
const SHOWN = ["pdb", "cif", "mmcif", "sdf", "mol", "mol2"] as const;
/** Larger ones are not shown: the browser would hold them several times over. */
const LARGEST = 50_000_000;

export function FileStructure({ file, residues }: { file: FileRecord; residues?: readonly Schemas["ResidueName"][] }) {
  const format = SHOWN.find((known) => known === file.format);
  const isSmall = (file.size_bytes ?? Infinity) <= LARGEST;
  if (file.status !== "ready") return <Notice kind="waiting"><p>Its content has not been registered yet.</p></Notice>;
  if (format === undefined) return <p className="quiet">There is no picture of files in this format.</p>;
  if (!isSmall) return <p className="quiet">Files of more than {bytes(LARGEST)} are not shown.</p>;
  const read = async () => ({ text: await textOf(file.file_id), format });
  return <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
    <Viewer id={file.file_id} read={read} residues={residues} name={file.name} />
  </Suspense>;
}

async function textOf(file_id: string): Promise<string> {
  return await expectData(molbox.GET("/retrieve/file/{file_id}", { params: { path: { file_id } }, parseAs: "text" })) as string;
}

/** The file that a request gives as its structure, by id or name; none when it is gone. */
export async function structureFile(protein: string): Promise<FileRecord | null> {
  if (protein.startsWith("file_")) {
    const { data } = await molbox.GET("/info/file/{file_id}", { params: { path: { file_id: protein } } });
    return data ?? null;
  }
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { name: protein, status: "ready", limit: 1 } } }));
  return items[0] ?? null;
}
