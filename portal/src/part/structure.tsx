//! The picture of a registered file.
import { Suspense } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { later } from "../api/later.ts";
import { Notice } from "./notice.tsx";
import { bytes } from "./number.ts";

type FileRecord = Schemas["FileRecord"];

const Viewer = later(() => import("../viewer/viewer.tsx"));

/** Formats that the viewer reads. Trajectories have no atoms of their own. */
export const SHOWN = ["pdb", "cif", "mmcif", "sdf", "mol", "mol2"] as const;
/** Larger ones are not shown: the browser would hold them several times over. */
export const LARGEST_SHOWN = 50_000_000;

type Props = {
  file: FileRecord;
  residues?: readonly Schemas["ResidueName"][];
  /** The chains that are drawn; all of them if none is named. */
  chains?: readonly string[];
};

export function FileStructure({ file, residues, chains }: Props) {
  if (file.status !== "ready") return <Notice kind="waiting"><p>Its content has not been registered yet.</p></Notice>;
  const source = sourceOf(file);
  if (!source) {
    const isKnown = SHOWN.some((known) => known === file.format);
    return <p className="quiet">{isKnown ? `Files of more than ${bytes(LARGEST_SHOWN)} are not shown.` : "There is no picture of files in this format."}</p>;
  }
  const read = async () => ({ text: await source.read(), format: source.format });
  return <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
    <Viewer id={file.file_id} read={read} residues={residues} chains={chains} name={file.name} />
  </Suspense>;
}

/** A registered file as the viewer takes it; nothing where there is no picture of it. */
export function sourceOf(file: FileRecord) {
  const format = SHOWN.find((known) => known === file.format);
  const isSmall = (file.size_bytes ?? Infinity) <= LARGEST_SHOWN;
  if (file.status !== "ready" || format === undefined || !isSmall) return undefined;
  return { id: file.file_id, format, read: () => textOf(file.file_id) };
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
