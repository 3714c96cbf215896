//! What a new system is made of, in the box that it would get. It is drawn anew when its files are others, not when they move.
import { useEffect, useRef, useState } from "react";

import { Notice } from "../part/notice.tsx";
import { placedBy } from "./placed.ts";
import { type BoxPlan, type Format, type Movable, Stage } from "./stage.ts";

export type Source = { id: string; format: Format; read: () => Promise<string> };
/** `rotation` is a matrix by rows, `moved` in Å. */
export type PlacedLigand = { source: Source; rotation: readonly number[]; moved: readonly number[] };

type Props = {
  structure: Source | undefined;
  /** The chains that are kept; all of them without. */
  chains: readonly string[] | undefined;
  ligands: readonly PlacedLigand[];
  box: BoxPlan | undefined;
};

export default function Preview({ structure, chains, ligands, box }: Props) {
  const target = useRef<HTMLDivElement>(null);
  const [stage, setStage] = useState<Stage>();
  const [movables, setMovables] = useState<readonly Movable[]>([]);
  const [error, fail] = useState<Error>();
  const key = JSON.stringify([structure?.id, chains, ligands.map(({ source }) => source.id)]);
  useEffect(() => {
    const place = target.current;
    if (!place) return;
    const canvas = document.createElement("div");
    place.append(canvas);
    let made: Stage | undefined;
    let isGone = false;
    const start = async () => {
      fail(undefined);
      const texts = await Promise.all([structure?.read(), ...ligands.map(({ source }) => source.read())]);
      if (isGone) return;
      made = await Stage.mount(canvas, true);
      if (isGone) return made.dispose();
      const [main, ...others] = texts;
      if (structure && main !== undefined) await made.show(main, structure.format, undefined, chains);
      else await made.clear();
      const added: Movable[] = [];
      for (const [i, text] of others.entries()) {
        const format = ligands[i]?.source.format;
        if (format && text !== undefined) added.push(await made.add(text, format));
      }
      if (isGone) return;
      setMovables(added);
      setStage(made);
    };
    start().catch((error: unknown) => {
      if (!isGone) fail(error instanceof Error ? error : new Error(String(error)));
    });
    return () => {
      isGone = true;
      setStage(undefined);
      setMovables([]);
      made?.dispose();
      canvas.remove();
    };
  }, [key]);

  const places = JSON.stringify(ligands.map(({ rotation, moved }) => [rotation, moved]));
  useEffect(() => {
    for (const [i, movable] of movables.entries()) {
      const ligand = ligands[i];
      if (ligand) void movable.place(placedBy(ligand.rotation, movable.centre, ligand.moved));
    }
  }, [movables, places]);
  useEffect(() => {
    void stage?.plan(box).then(() => stage.reset());
  }, [stage, JSON.stringify(box)]);

  return <>
    <div className="stage small-stage" hidden={error !== undefined}>
      <div ref={target} role="img" data-shown={stage !== undefined} aria-label={box ? "What is built, in its box" : "What is built"} />
      {!stage && <p className="quiet">Loading…</p>}
    </div>
    {error && <Notice kind="bad"><p>{error.message}</p></Notice>}
  </>;
}
