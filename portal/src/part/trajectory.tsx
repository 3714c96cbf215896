//! A registered trajectory, played with the registered structure that names its atoms.
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";

import { expectData, molbox, type Schemas } from "../api/client.ts";
import { contentsMask, fileStructureOf, fileTrajectoryOf } from "../api/trajectory.ts";
import { Input, textOf } from "./input.tsx";
import { Failure } from "./notice.tsx";

type FileRecord = Schemas["FileRecord"];

const Viewer = lazy(() => import("../viewer/viewer.tsx"));
const Analyses = lazy(async () => ({ default: (await import("./analysis.tsx")).Analyses }));

/** What names atoms. */
const TYPES = ["topology", "structure", "protein"];
const MOST = 500;

export function FileTrajectory({ file }: { file: FileRecord }) {
  const [topology, choose] = useState("");
  const { data: structures, error, refetch } = useQuery({ queryKey: ["files", "structures"], queryFn: readStructures });
  if (error) return <Failure error={error} again={() => void refetch()} />;
  if (!structures) return <p className="quiet">Loading…</p>;
  return <>
    <section className="panel stack">
      <h2>Play it</h2>
      <div className="field">
        <label htmlFor="topology">Structure with the names of its atoms</label>
        <select id="topology" value={topology} onChange={(event) => choose(event.target.value)}>
          <option value="">{structures.length > 0 ? "Choose a file" : "Upload the structure that it was made from"}</option>
          {structures.map(({ file_id, name }) => <option key={file_id} value={file_id}>{name}</option>)}
        </select>
      </div>
      {topology !== "" && <Played key={topology} file={file} topology={topology} />}
    </section>
    {topology !== "" && <Suspense fallback={<p className="quiet">Loading…</p>}>
      <Analyses subject={{ name: file.name, given: { topology, trajectory: file.file_id } }} />
    </Suspense>}
  </>;
}

async function readStructures(): Promise<FileRecord[]> {
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { status: "ready", limit: MOST } } }));
  return items.filter(({ type, format }) => TYPES.includes(type) && (format === "pdb" || format === "cif"));
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
