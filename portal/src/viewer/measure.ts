//! What an analysis measures between atoms, as it is in one frame.
import type { Cell } from "./dcd.ts";

export type Vector = readonly [x: number, y: number, z: number];

/** The first and the last of atoms that follow each other, by their numbers. */
export type Run = readonly number[];

/** The atoms of a frame, by their numbers in the system. */
export type Atoms = {
  /** Where an atom is, in Å; nothing for one that is not shown. */
  place: (atom: number) => Vector | undefined;
  /** Its mass, in Da. */
  mass: (atom: number) => number;
  /** The shortest of the periodic images of a vector. */
  nearest: (vector: Vector) => Vector;
};

export type Bond = { donor: number; hydrogen: number; acceptor: number };

/** What makes a hydrogen bond, as `hbond_criterion` has it; distances in Å, angles in degrees. */
export type Criterion =
  | { name: "angle"; distance: number; angle: number }
  | { name: "baker_hubbard" }
  | { name: "wernet_nilsson" };

export type Measured =
  | { kind: "distance"; groups: readonly [readonly Run[], readonly Run[]] }
  | { kind: "bonds"; bonds: readonly Bond[]; criterion: Criterion };

export type Line = { from: Vector; to: Vector };

/** The line between the centres of mass of two groups, or those of the hydrogen bonds that there are in the frame. */
export function linesOf(measured: Measured, atoms: Atoms): Line[] {
  if (measured.kind === "bonds") return measured.bonds.flatMap((bond) => lineOf(bond, measured.criterion, atoms) ?? []);
  const [from, to] = measured.groups.map((group) => centreOf(group, atoms));
  return from && to ? [{ from, to: add(from, atoms.nearest(minus(to, from))) }] : [];
}

export function lengthOf({ from, to }: Line): number {
  return Math.hypot(...minus(to, from));
}

/** From the hydrogen to the nearest image of the acceptor. */
function lineOf({ donor, hydrogen, acceptor }: Bond, criterion: Criterion, { place, nearest }: Atoms): Line | undefined {
  const [d, h, a] = [place(donor), place(hydrogen), place(acceptor)];
  if (!d || !h || !a) return undefined;
  const toHydrogen = nearest(minus(h, d));
  const toAcceptor = nearest(minus(a, d));
  const rest = minus(toAcceptor, toHydrogen);
  return isBond(toHydrogen, toAcceptor, rest, criterion) ? { from: h, to: add(h, rest) } : undefined;
}

function isBond(toHydrogen: Vector, toAcceptor: Vector, rest: Vector, criterion: Criterion): boolean {
  const atHydrogen = degrees(minus([0, 0, 0], toHydrogen), rest);
  const length = Math.hypot(...toAcceptor);
  switch (criterion.name) {
    case "angle":
      return length <= criterion.distance && atHydrogen >= criterion.angle;
    // Baker and Hubbard 1984, doi:10.1016/0079-6107(84)90007-5.
    case "baker_hubbard":
      return Math.hypot(...rest) < 2.5 && atHydrogen > 120;
    // Wernet and others 2004, doi:10.1126/science.1096205.
    case "wernet_nilsson": {
      const atDonor = degrees(toHydrogen, toAcceptor);
      return atDonor < 45 && length < 3.3 - 0.00044 * atDonor ** 2;
    }
  }
}

function centreOf(runs: readonly Run[], { place, mass }: Atoms): Vector | undefined {
  let [x, y, z, whole] = [0, 0, 0, 0];
  for (const [first = 1, last = 0] of runs) {
    for (let atom = first; atom <= last; atom++) {
      const at = place(atom);
      if (!at) return undefined;
      const weight = mass(atom);
      [x, y, z, whole] = [x + weight * at[0], y + weight * at[1], z + weight * at[2], whole + weight];
    }
  }
  return whole > 0 ? [x / whole, y / whole, z / whole] : undefined;
}

function degrees(a: Vector, b: Vector): number {
  const cosine = (a[0] * b[0] + a[1] * b[1] + a[2] * b[2]) / (Math.hypot(...a) * Math.hypot(...b));
  return (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI;
}

const STEPS = [-1, 0, 1];

/** The shortest periodic image of vectors in a cell; the vectors themselves where there is none. */
export function nearestIn(cell: Cell | undefined): Atoms["nearest"] {
  if (!cell) return (vector) => vector;
  const [a, b, c] = edgesOf(cell);
  return (vector) => {
    const k = Math.round(vector[2] / c[2]);
    const j = Math.round((vector[1] - k * c[1]) / b[1]);
    const i = Math.round((vector[0] - j * b[0] - k * c[0]) / a[0]);
    // In an oblique cell the nearest may be beside the one that rounding finds.
    const images = STEPS.flatMap((x) => STEPS.flatMap((y) => STEPS.map((z) =>
      add(vector, add(times(a, x - i), add(times(b, y - j), times(c, z - k)))))));
    return images.reduce((best, image) => (Math.hypot(...image) < Math.hypot(...best) ? image : best));
  };
}

/** The first along x, the second in the plane of x and y. */
function edgesOf({ lengths: [a, b, c], cosines: [alpha, beta, gamma] }: Cell): [Vector, Vector, Vector] {
  const sine = Math.sqrt(1 - gamma ** 2);
  const y = (alpha - beta * gamma) / sine;
  return [[a, 0, 0], [b * gamma, b * sine, 0], [c * beta, c * y, c * Math.sqrt(1 - beta ** 2 - y ** 2)]];
}

function add(a: Vector, b: Vector): Vector {
  return [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
}

function minus(a: Vector, b: Vector): Vector {
  return [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
}

function times(a: Vector, factor: number): Vector {
  return [factor * a[0], factor * a[1], factor * a[2]];
}
