//! A registered trajectory, played with the registered structure that names its atoms.
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { later } from "../api/later.ts";
import { contentsMask, fileStructureOf, fileTrajectoryOf } from "../api/trajectory.ts";
import { useSettled } from "../form/check.tsx";
import { Input, textOf } from "./input.tsx";
import { Failure } from "./notice.tsx";

type FileRecord = Schemas["FileRecord"];

const Viewer = later(() => import("../viewer/viewer.tsx"));
const Analyses = later(async () => ({ default: (await import("./analysis.tsx")).Analyses }));

/** What names atoms, and what of it has a picture. */
const FORMATS = ["pdb", "cif", "gro", "prmtop", "psf"];
const PICTURED = ["pdb", "cif"];
/** The newest files are suggested; any other is typed. */
const SUGGESTED = 500;

export function FileTrajectory({ file }: { file: FileRecord }) {
  const [typed, type] = useState("");
  const wanted = useSettled(typed.trim());
  const { data: suggested } = useQuery({ queryKey: ["files", "topologies"], queryFn: () => namersOf({ limit: SUGGESTED }) });
  const { data: topology, error, refetch } = useQuery({
    queryKey: ["files", "topology", wanted],
    queryFn: async () => (await namedFile(wanted)) ?? null,
    enabled: wanted !== "",
  });
  const isMissing = wanted !== "" && topology === null;
  const hasPicture = topology && PICTURED.includes(topology.format);
  return <>
    <section className="panel stack">
      <h2>Play it</h2>
      <div className="field">
        <label htmlFor="topology">Structure with the names of its atoms</label>
        <input id="topology" list="topologies" value={typed} onChange={(event) => type(event.target.value)} spellCheck={false}
          autoComplete="off" placeholder="A file, by its name" aria-describedby="topology-help" aria-invalid={isMissing || undefined} />
        <datalist id="topologies">{suggested?.map(({ file_id, name }) => <option key={file_id} value={name} />)}</datalist>
        <small id="topology-help">
          <strong role="status" className="wrong">{isMissing && `There is no registered structure ${wanted}. `}</strong>
          A registered file, <code>pdb</code>, <code>cif</code>, <code>gro</code>, <code>prmtop</code> or <code>psf</code>, of as many atoms.
        </small>
      </div>
      {error && <Failure error={error} again={() => void refetch()} />}
      {topology && !hasPicture && <p className="quiet">There is no picture with a {topology.format} file, but what can be measured.</p>}
      {hasPicture && <Played key={topology.file_id} file={file} topology={topology.file_id} />}
    </section>
    {topology && <Suspense fallback={<p className="quiet">Loading…</p>}>
      <Analyses key={topology.file_id} subject={{ name: file.name, given: { topology: topology.file_id, trajectory: file.file_id } }} />
    </Suspense>}
  </>;
}

/** Files that name atoms, the newest first. */
async function namersOf(query: { limit: number; name?: string }): Promise<FileRecord[]> {
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { status: "ready", ...query } } }));
  return items.filter(({ format }) => FORMATS.includes(format));
}

/** The file of a name or an identifier. */
async function namedFile(wanted: string): Promise<FileRecord | undefined> {
  const [named] = await namersOf({ limit: 1, name: wanted });
  if (named || !wanted.startsWith("file_")) return named;
  const { data } = await molbox.GET("/info/file/{file_id}", { params: { path: { file_id: wanted } } });
  return data && FORMATS.includes(data.format) && data.status === "ready" ? data : undefined;
}

function Played({ file: { file_id, name }, topology }: { file: FileRecord; topology: string }) {
  const [mask, setMask] = useState("");
  const { data: contents, error, refetch } = useQuery({
    queryKey: ["contents", topology],
    queryFn: () => expectData(molbox.GET("/info/file/{file_id}/contents", { params: { path: { file_id: topology } } })),
    staleTime: Infinity,
  });
  if (error) return <Failure error={error} again={() => void refetch()} />;
  if (!contents?.structure) return <p className="quiet">Reading…</p>;
  const shown = mask === "" ? contentsMask(contents.structure) : mask;
  const read = async () => ({ text: await fileStructureOf(topology, shown), format: "mmcif" as const });
  return <>
    <form className="row" action={(data) => setMask(textOf(data, "mask").trim())}>
      <Input label="Atoms" name="mask" className="mono" defaultValue={mask} key={mask} spellCheck={false}
        help={<>An Amber mask, such as <code>:1-20@CA</code>; <code>*</code> for all. Default: everything but water and ions.</>} />
      <button type="submit">Show</button>
    </form>
    <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
      <Viewer id={`${file_id} ${topology} ${shown}`} read={read} hasMasks name={name} frames={fileTrajectoryOf(file_id, topology, shown)} />
    </Suspense>
  </>;
}
