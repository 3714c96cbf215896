//! Where a ligand of a request comes to lie: rotated about the middle of its heavy atoms, then moved, as the worker does it.

/** Three, four or nine numbers as `ligand_rotations` has them; by rows. None for what is no rotation. */
export function rotationOf(numbers: readonly number[]): number[] | undefined {
  if (numbers.length === 0) return [1, 0, 0, 0, 1, 0, 0, 0, 1];
  if (numbers.length === 3) return aboutAxes(numbers.map((degrees) => degrees * Math.PI / 180));
  if (numbers.length === 4) return ofQuaternion(numbers);
  return numbers.length === 9 ? [...numbers] : undefined;
}

/** About the fixed axes x, then y, then z. */
function aboutAxes([x = 0, y = 0, z = 0]: readonly number[]): number[] {
  const [cx, cy, cz] = [Math.cos(x), Math.cos(y), Math.cos(z)];
  const [sx, sy, sz] = [Math.sin(x), Math.sin(y), Math.sin(z)];
  return [
    cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx,
    sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx,
    -sy, cy * sx, cy * cx,
  ];
}

function ofQuaternion(numbers: readonly number[]): number[] | undefined {
  const length = Math.hypot(...numbers);
  if (length === 0) return undefined;
  const [x = 0, y = 0, z = 0, w = 0] = numbers.map((value) => value / length);
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
    2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
    2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
  ];
}

/** The matrix by columns, as WebGL has them, of `R (p − centre) + centre + moved`; lengths in one unit. */
export function placedBy(rotation: readonly number[], centre: readonly number[], moved: readonly number[]): number[] {
  const row = (i: number) => [0, 1, 2].map((j) => rotation[3 * i + j] ?? 0);
  const shift = [0, 1, 2].map((i) =>
    (centre[i] ?? 0) + (moved[i] ?? 0) - row(i).reduce((sum, value, j) => sum + value * (centre[j] ?? 0), 0));
  const columns = [0, 1, 2].flatMap((j) => [...[0, 1, 2].map((i) => row(i)[j] ?? 0), 0]);
  return [...columns, ...shift, 1];
}

/** A rotation by rows as angles about the fixed axes x, y, z, in degrees. */
export function anglesOf(rotation: readonly number[]): number[] {
  const at = (i: number) => rotation[i] ?? 0;
  const y = Math.asin(Math.max(-1, Math.min(1, -at(6))));
  // Where x and z turn about one line, one angle is enough for both.
  const isLocked = Math.abs(at(6)) > 1 - 1e-9;
  const [x, z] = isLocked ? [Math.atan2(-at(5), at(4)), 0] : [Math.atan2(at(7), at(8)), Math.atan2(at(3), at(0))];
  return [x, y, z].map((radians) => Math.round(radians * 1800 / Math.PI) / 10 + 0);
}

/** First the second rotation, then the first. */
export function after(first: readonly number[], second: readonly number[]): number[] {
  return [0, 1, 2].flatMap((i) => [0, 1, 2].map((j) =>
    [0, 1, 2].reduce((sum, k) => sum + (first[3 * i + k] ?? 0) * (second[3 * k + j] ?? 0), 0)));
}
