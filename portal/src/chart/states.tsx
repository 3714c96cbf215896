//! Secondary structure over time as a picture: frames from left to right, residues upwards.
import { useEffect, useRef, useState } from "react";

import { number } from "../part/number.ts";
import { STATE_CLASSES, type StateMap } from "./table.ts";

/** Columns of pixels; of more frames one of so many is drawn. */
const MOST_COLUMNS = 1200;

type Props = { states: StateMap; onFrame?: ((frame: number) => void) | undefined };

export function States({ states, onFrame }: Props) {
  const { title, codes, frames, residues } = states;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, point] = useState("");
  useEffect(() => {
    if (canvas.current) draw(canvas.current, states);
  }, [states]);
  const frameAt = (place: number, { clientWidth }: HTMLElement) => Math.min(codes.length - 1, Math.floor((place / clientWidth) * codes.length));
  return <figure className="chart">
    <figcaption className="row">
      {STATE_CLASSES.map(({ name, colour }) => <span key={name} className="quiet"><svg className="swatch" aria-hidden="true"><rect width="100%" height="100%" fill={colour} /></svg> {name}</span>)}
    </figcaption>
    <canvas ref={canvas} className="states" role="img" aria-label={`${title}: the state of ${residues.length} residues in ${frames.length} frames`}
      onPointerLeave={() => point("")}
      onClick={({ currentTarget, nativeEvent }) => onFrame?.(frames[frameAt(nativeEvent.offsetX, currentTarget)] ?? NaN)}
      onPointerMove={({ currentTarget, nativeEvent }) => {
        const at = frameAt(nativeEvent.offsetX, currentTarget);
        const up = 1 - (nativeEvent.offsetY + 0.5) / currentTarget.clientHeight;
        const row = Math.min(residues.length - 1, Math.max(0, Math.floor(up * residues.length)));
        point(`Frame ${number(frames[at] ?? NaN)}, ${residues[row] ?? ""}: ${codes[at]?.charAt(row) ?? ""}`);
      }} />
    <p className="small quiet" aria-live="off">
      {pointed || `Frames ${number(frames[0] ?? NaN)} to ${number(frames.at(-1) ?? NaN)} from the left, ${residues[0] ?? ""} to ${residues.at(-1) ?? ""} upwards.`}
    </p>
  </figure>;
}

/** A pixel for each residue and frame. */
function draw(canvas: HTMLCanvasElement, { codes, residues }: StateMap): void {
  const width = Math.min(MOST_COLUMNS, codes.length);
  const height = residues.length;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  if (!context) return;
  const colourOf = new Map(STATE_CLASSES.flatMap(({ letters, colour }) => [...letters].map((letter) => [letter, colour] as const)));
  for (let column = 0; column < width; column += 1) {
    const ofFrame = codes[Math.floor((column * codes.length) / width)] ?? "";
    for (let row = 0; row < height; row += 1) {
      const colour = colourOf.get(ofFrame.charAt(row));
      if (!colour) continue;
      context.fillStyle = colour;
      context.fillRect(column, height - 1 - row, 1, 1);
    }
  }
}
