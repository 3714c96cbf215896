//! A file: what is known of it, and what it looks like.
import { useQuery } from "@tanstack/react-query";

import { baseUrl, expectData, molbox } from "../api/client.ts";
import { Notice, Unreadable } from "../part/notice.tsx";
import { bytes } from "../part/number.ts";
import { Status } from "../part/status.tsx";
import { FileStructure } from "../part/structure.tsx";
import { When } from "../part/when.tsx";
import { address, type PageProps } from "../routes.ts";

export default function FilePage({ given: { file_id } }: PageProps<"file">) {
  const { data: file, error, refetch } = useQuery({
    queryKey: ["file", file_id],
    queryFn: () => expectData(molbox.GET("/info/file/{file_id}", { params: { path: { file_id } } })),
  });
  if (error && !file) return <Unreadable error={error} what="file" again={() => void refetch()} />;
  if (!file) return <p className="quiet">Loading…</p>;
  return <div className="stack">
    <title>{`${file.name} · molbox`}</title>
    <div className="spread">
      <div>
        <h1>{file.name}</h1>
        <span className="mono quiet">{file.file_id}</span>
      </div>
      <div className="row">
        <Status status={file.status} />
        {file.status === "ready" && ["structure", "protein", "topology"].includes(file.type)
          && <a className="button main" href={address("system_new", { protein: file.name })}>Build a system</a>}
        {file.status === "ready" && <a className="button" href={`${baseUrl}/retrieve/file/${file_id}`} download>Download</a>}
      </div>
    </div>
    <div className="columns">
      <FileStructure file={file} />
      <section className="panel stack">
        <h2>About</h2>
        <dl>
          <dt>kind</dt><dd>{file.type.replaceAll("_", " ")}</dd>
          <dt>format</dt><dd>{file.format}</dd>
          {file.size_bytes !== undefined && <><dt>size</dt><dd>{bytes(file.size_bytes)}</dd></>}
          {file.pdb_id !== undefined && <><dt>entry</dt><dd>{file.pdb_id}</dd></>}
          <dt>registered</dt><dd><When at={file.created_at} /></dd>
          {file.sha256 !== undefined && <><dt>SHA-256</dt><dd className="mono">{file.sha256}</dd></>}
        </dl>
        {file.warnings?.map(({ message }, i) => <Notice key={i} kind="waiting"><p>{message}</p></Notice>)}
      </section>
    </div>
  </div>;
}
