//! The files of the account. The whole page takes what is dropped on it.
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, Suspense, useContext, useEffect, useRef, useState } from "react";

import { baseUrl, expectData, molbox, Refused, type Schemas } from "../api/client.ts";
import { newKey } from "../api/key.ts";
import { later } from "../api/later.ts";
import { EXTENSIONS, stemOf, Unfit } from "../api/upload.ts";
import { sentence } from "../api/words.ts";
import { Deletion } from "../part/deletion.tsx";
import { isUnregistered, titleOf, UNREGISTERED, useOf } from "../part/files.ts";
import { useOnce } from "../part/mutation.ts";
import { Failure } from "../part/notice.tsx";
import { bytes, percent } from "../part/number.ts";
import { Pages, usePaging } from "../part/pages.tsx";
import { Status } from "../part/status.tsx";
import { LARGEST_SHOWN, SHOWN } from "../part/structure.tsx";
import { isOfName, type Row, type Sending, Uploads } from "../part/uploads.tsx";
import { useHasEntries } from "../part/usage.ts";
import { When } from "../part/when.tsx";
import { address } from "../routes.ts";

const Viewer = later(() => import("../viewer/viewer.tsx"));

type FileRecord = Schemas["FileRecord"];

export default function Files() {
  const [isOver, setOver] = useState(false);
  const sending = useContext(Uploads);
  const hasEntries = useHasEntries();
  useEffect(() => sending?.tidy, []);
  if (!sending) throw new Error("the page is shown outside of the portal");
  const add = (files: File[]) => sending.add(files.map((file) => ({ file, name: stemOf(file.name) })));
  // A folder comes as a file that cannot be read.
  const addDropped = (items: DataTransferItem[]) => sending.add(items.flatMap((item) => {
    const file = item.getAsFile();
    const isFolder = item.webkitGetAsEntry()?.isDirectory === true;
    if (!file) return [];
    return [{ file, name: stemOf(file.name), ...(isFolder && { unfit: new Unfit(`${file.name} is a folder: drop the files in it, or a zip of them`) }) }];
  }));
  useEffect(() => {
    const over = (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    };
    // From one element to another is not away from the page.
    const leave = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const drop = (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      addDropped([...(event.dataTransfer?.items ?? [])]);
    };
    // Below what the page shows, too: there a browser would leave it, and open the file by itself.
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  });
  return <div className="stack">
    <title>Files · molbox</title>
    <h1>Files</h1>
    <DropZone isOver={isOver} onFiles={add} />
    {sending.rows.length > 0 && <section className="panel" aria-label="Uploads">
      <ul className="plain-list uploads">{sending.rows.map((row) => <UploadRow key={row.id} row={row} sending={sending} />)}</ul>
    </section>}
    {hasEntries && <PublicEntry />}
    <FileTable sending={sending} />
  </div>;
}

function DropZone({ isOver, onFiles }: { isOver: boolean; onFiles: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return <div className={`drop ${isOver ? "over" : ""}`}>
    <p>Drop files anywhere on this page, or</p>
    <button className="main" onClick={() => input.current?.click()}>Choose files…</button>
    <input ref={input} type="file" multiple hidden aria-label="Files to upload"
      accept={[...EXTENSIONS, "gz"].map((extension) => `.${extension}`).join()}
      onChange={(event) => {
        onFiles([...(event.target.files ?? [])]);
        event.target.value = "";
      }} />
    <p className="small quiet">
      Structures (pdb, ent, cif), ligands (sdf, mol, mol2), force fields (xml), trajectories (dcd, xtc, trr, nc),
      built systems and topologies (prmtop, psf, gro, top, zip and more);
      each also packed, as pdb.gz
    </p>
  </div>;
}

function UploadRow({ row, sending }: { row: Row; sending: Sending }) {
  const { id, file, name, sent, state, error } = row;
  const isOpen = state === "sends" || state === "registers" || state === "waits";
  const [isShown, show] = useState(false);
  const format = SHOWN.find((known) => file.name.toLowerCase().endsWith(`.${known}`));
  const canTryAgain = state === "failed" && !(error instanceof Unfit) && !(error instanceof Refused && error.status === 422);
  const canRename = state === "failed" && isOfName(error);
  return <li className="stack">
    <div className="spread">
      <span><strong>{file.name}</strong> <span className="quiet">{bytes(file.size)}</span></span>
      <span className="row">
        <span role="status">{{
          waits: "waits", sends: percent(file.size === 0 ? 1 : sent / file.size), registers: "is read", done: "ready", there: "already there", failed: "failed",
        }[state]}</span>
        {isOpen && <button onClick={() => sending.cancel(id)}>Cancel</button>}
        {canTryAgain && <button onClick={() => sending.again(id)}>Try again</button>}
        {format && file.size <= LARGEST_SHOWN && <button aria-pressed={isShown} onClick={() => show(!isShown)}>Look at it</button>}
        {!isOpen && <button onClick={() => sending.cancel(id)}>{state === "failed" ? "Leave it" : "Hide"}</button>}
      </span>
    </div>
    {isOpen && <progress aria-label={`Upload of ${file.name}`} max={file.size} value={sent} />}
    {error && <Failure error={error} />}
    {isShown && format && <Suspense fallback={<div className="stage"><p className="quiet">Loading…</p></div>}>
      <Viewer id={`upload ${id}`} name={name} read={async () => ({ text: await file.text(), format })} />
    </Suspense>}
    {canRename && <Rename name={name} onName={(other) => sending.rename(id, other)} />}
  </li>;
}

function Rename({ name, onName }: { name: string; onName: (name: string) => void }) {
  const [typed, type] = useState(name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed.trim() !== "") onName(typed.trim());
  };
  return <form className="row" onSubmit={submit}>
    <label className="row">Another name <input className="short" value={typed} onChange={(event) => type(event.target.value)} /></label>
    <button>Register</button>
  </form>;
}

/** An entry of the Protein Data Bank, which the service fetches from its mirror. */
function PublicEntry() {
  const queries = useQueryClient();
  const [typed, type] = useState("");
  const entry = useOnce({
    mutationFn: (pdb_id: string) => expectData(molbox.POST("/submit/file/", {
      body: { pdb_id }, params: { header: { "Idempotency-Key": newKey() } },
    })),
    onSuccess: () => {
      type("");
      void queries.invalidateQueries({ queryKey: ["files"] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed.trim() !== "" && !entry.isPending) entry.mutate(typed.trim());
  };
  return <details>
    <summary>Public entry by its identifier</summary>
    <div className="stack">
      <form className="row" onSubmit={submit}>
        <label className="row">Entry <input className="short" value={typed} placeholder="1L2Y" spellCheck={false}
          onChange={(event) => type(event.target.value)} /></label>
        <button aria-busy={entry.isPending}>Fetch</button>
      </form>
      {entry.error && <Failure error={entry.error} />}
      {entry.data && <p role="status">{entry.data.name} is {entry.data.status}.</p>}
    </div>
  </details>;
}

function FileTable({ sending }: { sending: Sending }) {
  const paging = usePaging();
  const [deleted, setDeleted] = useState<FileRecord>();
  const files = useQuery({
    queryKey: ["files", paging.token],
    queryFn: () => expectData(molbox.GET("/info/files", {
      params: { query: paging.token === undefined ? {} : { page_token: paging.token } },
    })),
    placeholderData: keepPreviousData,
  });
  if (files.error) return <Failure error={files.error} again={() => void files.refetch()} />;
  if (!files.data) return <p className="quiet">Loading…</p>;
  // What this window still sends, or could not register, has a row above.
  const items = files.data.items.filter(({ file_id }) => !sending.rows.some(({ fileId, state }) => fileId === file_id && state !== "done"));
  if (items.length === 0 && paging.isFirst) return <p className="quiet">There is no file yet.</p>;
  return <>
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col" className="wide">Kind</th>
          <th scope="col" className="wide">Format</th>
          <th scope="col" className="number wide">Size</th>
          <th scope="col" className="wide">Status</th>
          <th scope="col" className="wide">Registered</th>
          <th scope="col"><span className="unseen">What to do</span></th>
        </tr>
      </thead>
      <tbody>{items.map((file) => <tr key={file.file_id}>
        <td>
          <a href={address("file", { file_id: file.file_id })}>{titleOf(file)}</a>
          {isUnregistered(file) && <div className="small quiet">{UNREGISTERED}</div>}
          {file.status !== "ready" && <div className="small only-narrow"><Status status={file.status} /></div>}
          {file.warnings?.map(({ message }, i) => <div key={i} className="small quiet">{sentence(message)}</div>)}
        </td>
        <td className="wide words">{file.type.replaceAll("_", " ")}</td>
        <td className="wide">{file.format}</td>
        <td className="number wide">{file.size_bytes !== undefined && bytes(file.size_bytes)}</td>
        <td className="wide"><Status status={file.status} /></td>
        <td className="wide"><When at={file.created_at} /></td>
        <td className="actions"><FileActions file={file} onDelete={() => setDeleted(file)} /></td>
      </tr>)}</tbody>
    </table>
    <Pages paging={paging} next={files.data.next_page} />
    {deleted && <Delete file={deleted} onClose={() => setDeleted(undefined)} />}
  </>;
}

function FileActions({ file, onDelete }: { file: FileRecord; onDelete: () => void }) {
  const use = useOf(file);
  return <span className="end">
    {use && <a href={address("system_new", use.given)}>{use.name}</a>}
    {file.status === "ready" && <a href={`${baseUrl}/retrieve/file/${file.file_id}`} download>Download</a>}
    <button className="plain danger" aria-label={`Delete ${titleOf(file)}`} onClick={onDelete}>Delete…</button>
  </span>;
}

function Delete({ file, onClose }: { file: FileRecord; onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useOnce({
    mutationFn: () => expectData(molbox.DELETE("/info/file/{file_id}", { params: { path: { file_id: file.file_id } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["files"] });
      onClose();
    },
  });
  const loss = isUnregistered(file) ? "Nothing was made of it, and what still sends it is refused."
    : "The file is gone for good. What was built of it stays.";
  return <Deletion what={titleOf(file)} loss={loss} remove={remove} onClose={onClose} />;
}
