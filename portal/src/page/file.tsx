//! A file: what is known of it, and what it looks like.
import { useQuery } from "@tanstack/react-query";

import { baseUrl, expectData, molbox, type Schemas } from "../api/client.ts";
import { sentence } from "../api/words.ts";
import { chainsIn, type Choice, choicesOf, nameOf } from "../part/chains.ts";
import { isUnregistered, titleOf, UNREGISTERED, useOf } from "../part/files.ts";
import { Failure, Notice, Unreadable } from "../part/notice.tsx";
import { bytes, moment, number } from "../part/number.ts";
import { Status } from "../part/status.tsx";
import { FileStructure } from "../part/structure.tsx";
import { FileTrajectory } from "../part/trajectory.tsx";
import { When } from "../part/when.tsx";
import { address, goInstead, type PageProps } from "../routes.ts";

export default function FilePage({ given: { file_id }, search }: PageProps<"file">) {
  const { data: file, error, refetch } = useQuery({
    queryKey: ["file", file_id],
    queryFn: () => expectData(molbox.GET("/info/file/{file_id}", { params: { path: { file_id } } })),
  });
  if (error && !file) return <Unreadable error={error} what="file" again={() => void refetch()} />;
  if (!file) return <p className="quiet">Loading…</p>;
  const use = useOf(file);
  const chains = chainsIn(search.get("chain_id"));
  const keep = (names: readonly string[]) => goInstead(address("file", { file_id, ...namesIn(names) }));
  return <div className="stack">
    <title>{`${titleOf(file)} · molbox`}</title>
    <div className="spread">
      <div>
        <h1>{titleOf(file)}</h1>
        <span className="mono quiet">{file.file_id}</span>
      </div>
      <div className="row">
        <Status status={file.status} />
        {use && <a className="button main" href={address("system_new", { ...use.given, ...namesIn(chains) })}>{use.name} a system</a>}
        {file.status === "ready" && <a className="button" href={`${baseUrl}/retrieve/file/${file_id}`} download>Download</a>}
      </div>
    </div>
    <div className="columns">
      <div className="stack">
        {isUnregistered(file) ? <Notice kind="waiting"><p>{UNREGISTERED}</p></Notice>
          : file.type === "trajectory" && file.status === "ready" ? <FileTrajectory file={file} /> : <FileStructure file={file} chains={chains} />}
        {file.status === "ready" && file.format !== "xml" && <Contents file_id={file_id} kept={chains} onKept={keep} />}
      </div>
      <section className="panel stack">
        <h2>About</h2>
        <dl>
          <dt>kind</dt><dd>{file.type.replaceAll("_", " ")}</dd>
          <dt>format</dt><dd>{file.format}</dd>
          {file.size_bytes !== undefined && <><dt>size</dt><dd>{bytes(file.size_bytes)}</dd></>}
          {file.pdb_id !== undefined && <><dt>entry</dt><dd>{file.pdb_id}</dd></>}
          <dt>{isUnregistered(file) ? "began" : "registered"}</dt><dd><When at={file.created_at} isExact /></dd>
          {file.sha256 !== undefined && <><dt>SHA-256</dt><dd className="mono">{file.sha256}</dd></>}
        </dl>
        {file.warnings?.map(({ message }, i) => <Notice key={i} kind="waiting"><p>{sentence(message)}</p></Notice>)}
      </section>
    </div>
  </div>;
}

/** Which chains are kept, as the address of a page names them. */
function namesIn(chains: readonly string[]): Readonly<Record<string, string>> {
  return chains.length > 0 ? { chain_id: chains.join() } : {};
}

type Kept = { kept: readonly string[]; onKept: (kept: string[]) => void };

/** What it contains, and what a build would make of it. */
function Contents({ file_id, ...kept }: { file_id: string } & Kept) {
  const { data: contents, error, refetch } = useQuery({
    queryKey: ["contents", file_id],
    queryFn: () => expectData(molbox.GET("/info/file/{file_id}/contents", { params: { path: { file_id } } })),
    staleTime: Infinity,
  });
  if (error) return <Failure error={error} again={() => void refetch()} />;
  if (!contents) return <p className="quiet">Reading…</p>;
  const { structure, ligand, trajectory, warnings } = contents;
  return <>
    <section className="panel stack">
      <h2>What it contains</h2>
      {structure && <StructureContents structure={structure} {...kept} />}
      {ligand && <dl>
        <dt>formula</dt><dd>{ligand.formula}</dd>
        <dt>atoms</dt><dd>{number(ligand.atoms)}, {number(ligand.hydrogens)} of them hydrogen</dd>
        {ligand.charge !== undefined && <><dt>charge</dt><dd>{number(ligand.charge)} e</dd></>}
        {ligand.molecules > 1 && <><dt>molecules</dt><dd>{number(ligand.molecules)}</dd></>}
      </dl>}
      {trajectory && <dl>
        <dt>frames</dt><dd>{number(trajectory.frames)}</dd>
        <dt>atoms</dt><dd>{number(trajectory.atoms)}</dd>
        {trajectory.start !== undefined && trajectory.end !== undefined
          && <><dt>times</dt><dd>{moment(trajectory.start)} to {moment(trajectory.end)} ps</dd></>}
      </dl>}
    </section>
    {warnings && warnings.length > 0 && <section className="panel stack">
      <h2>In a build from it</h2>
      <ul className="plain-list">{warnings.map(({ code, message }, i) =>
        <li key={i}>{sentence(message)} <code className="quiet">{code}</code></li>)}</ul>
    </section>}
  </>;
}

function ChainName({ chain, choice, onKept }: { chain: Choice["chain"]; choice: Choice | undefined; onKept: Kept["onKept"] }) {
  if (!choice) return nameOf(chain);
  return <label className="tick">
    <input type="checkbox" checked={choice.isKept} disabled={choice.isFixed} onChange={() => onKept(choice.toggled)} />
    {nameOf(chain)}
  </label>;
}

function StructureContents({ structure, kept, onKept }: { structure: Schemas["StructureContents"] } & Kept) {
  const { chains, heterogens, models, alternates, truncated } = structure;
  const choices = choicesOf(structure, kept);
  const waters = chains.reduce((sum, chain) => sum + chain.waters, 0);
  return <>
    <dl>
      <dt>atoms</dt><dd>{number(structure.atoms)}, {number(structure.hydrogens)} of them hydrogen</dd>
      <dt>residues</dt><dd>{number(structure.residues)}{waters > 0 && !truncated && `, ${number(waters)} of them water`}</dd>
      {models > 1 && <><dt>models</dt><dd>{number(models)}</dd></>}
      {alternates > 0 && <><dt>in several locations</dt><dd>{number(alternates)} residues</dd></>}
      {heterogens.length > 0
        && <><dt>heterogens</dt><dd>{heterogens.map(({ name, count }) => `${number(count)} ${name}`).join(", ")}</dd></>}
    </dl>
    <div className="scroll" role="region" aria-label="Chains" tabIndex={0}><table>
      <thead><tr>
        <th scope="col">Chain</th>
        <th scope="col">Kind</th>
        <th scope="col" className="number">Residues</th>
        <th scope="col" className="number">Missing</th>
        <th scope="col" className="number">Waters</th>
      </tr></thead>
      <tbody>{chains.map((chain, i) => <tr key={i}>
        <td className="words"><ChainName chain={chain} choice={choices[i]} onKept={onKept} /></td>
        <td className="words">{chain.kinds.map((kind) => kind.replaceAll("_", " ")).join(", ")}</td>
        <td className="number">{number(chain.residues)}</td>
        <td className="number">{number(chain.missing_residues)}</td>
        <td className="number">{number(chain.waters)}</td>
      </tr>)}</tbody>
    </table></div>
    {choices.length > 0 && <p className="small quiet">Chains that are not ticked are neither shown nor built.</p>}
    {truncated && <p className="small quiet">The lists are longer; their first entries are shown.</p>}
  </>;
}
