//! A matrix as a picture of squares.
import { useEffect, useRef, useState } from "react";

import { number } from "../part/number.ts";
import { save } from "./save.ts";
import type { Matrix } from "./table.ts";

const WIDTH = 420;

/** Drawn for light and dark alike: from white to blue, as print takes it. */
export function Heatmap({ matrix }: { matrix: Matrix }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, point] = useState("");
  useEffect(() => {
    if (canvas.current) draw(canvas.current, matrix);
  }, [matrix]);
  const png = () => canvas.current?.toBlob((blob) => blob && save(`${matrix.title.replaceAll(/[^\w.-]+/g, "_")}.png`, blob));
  return <figure className="chart">
    <figcaption className="spread">
      <span className="quiet">{matrix.name} of pairs of residues, from 0 (white) to 1 (blue)</span>
      <span className="saves"><button className="plain" aria-label={`${matrix.title} as PNG`} onClick={png}>PNG</button></span>
    </figcaption>
    <canvas ref={canvas} className="heatmap" role="img" aria-label={`${matrix.title}: ${matrix.name} of ${matrix.size} by ${matrix.size} residues`}
      onPointerLeave={() => point("")}
      onPointerMove={({ currentTarget, nativeEvent }) => {
        const residue = (offset: number) => 1 + Math.floor((offset / currentTarget.clientWidth) * matrix.size);
        const [column, row] = [residue(nativeEvent.offsetX), matrix.size + 1 - residue(nativeEvent.offsetY)];
        const value = matrix.at(row, column);
        point(`${column} and ${row}: ${value === undefined ? "none" : number(value, 3)}`);
      }} />
    <p className="small quiet" aria-live="off">{pointed || "Residues from 1, from the lower left corner."}</p>
  </figure>;
}

function draw(canvas: HTMLCanvasElement, { size, at }: Matrix): void {
  const scale = Math.max(1, Math.ceil((2 * WIDTH) / size));
  canvas.width = canvas.height = size * scale;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (let row = 1; row <= size; row += 1) {
    for (let column = 1; column <= size; column += 1) {
      const value = at(row, column);
      if (value === undefined) continue;
      context.fillStyle = `color-mix(in srgb, #0072b2 ${100 * Math.min(1, Math.max(0, value))}%, #ffffff)`;
      context.fillRect((column - 1) * scale, (size - row) * scale, scale, scale);
    }
  }
}
