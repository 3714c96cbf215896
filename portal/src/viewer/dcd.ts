//! A DCD file of which only the frames that are looked at are read, by ranges.
//!
//! The service writes frames of one size, so that the place of a frame follows from its number. Mol* has a
//! reader of DCD too, but it wants the whole file, and reads the cell's second number from the wrong place.

/** Bytes of a file from one place up to, not including, another; and how many the whole file has. */
export type ReadRange = (from: number, to: number) => Promise<{ bytes: ArrayBuffer; size: number }>;

/** Lengths in Å, and the cosines of α, β and γ. */
export type Cell = { lengths: Numbers; cosines: Numbers };
type Numbers = [number, number, number];

/** Coordinates in Å, one array an axis; and the cell of a periodic box. */
export type Frame = { x: Float32Array; y: Float32Array; z: Float32Array; cell: Cell | undefined };

const HEADER_BYTES = 1024;
const PIECE_BYTES = 2 << 20;
/** With what Mol* holds itself, a page that plays 5000 atoms stays below 150 MB. */
const KEPT_BYTES = 48 << 20;
/** A cell of six numbers between its two lengths. */
const CELL_BYTES = 56;

type Layout = { atoms: number; start: number; hasCell: boolean };

export class Dcd {
  readonly atoms: number;
  readonly frames: number;
  readonly #read: ReadRange;
  readonly #layout: Layout;
  readonly #frameBytes: number;
  readonly #perPiece: number;
  readonly #mostPieces: number;
  /** Pieces of the file by their number, least recently used first. */
  readonly #pieces = new Map<number, Promise<ArrayBuffer>>();

  private constructor(read: ReadRange, layout: Layout, size: number) {
    const { atoms, start, hasCell } = layout;
    this.#read = read;
    this.#layout = layout;
    this.#frameBytes = 3 * (4 * atoms + 8) + (hasCell ? CELL_BYTES : 0);
    this.#perPiece = Math.max(1, Math.floor(PIECE_BYTES / this.#frameBytes));
    this.#mostPieces = Math.max(2, Math.floor(KEPT_BYTES / (this.#perPiece * this.#frameBytes)));
    this.atoms = atoms;
    // The header's own count may be older than the file.
    this.frames = Math.max(0, Math.floor((size - start) / this.#frameBytes));
  }

  static async open(read: ReadRange): Promise<Dcd> {
    const { bytes, size } = await read(0, HEADER_BYTES);
    return new Dcd(read, layoutOf(new DataView(bytes)), size);
  }

  /** A frame by its number from 0. The arrays are of the piece that was read: nothing is copied. */
  async frame(index: number): Promise<Frame> {
    if (!Number.isInteger(index) || index < 0 || index >= this.frames) {
      throw new RangeError(`frame ${index} of ${this.frames}`);
    }
    const piece = Math.floor(index / this.#perPiece);
    const bytes = await this.#piece(piece);
    const { hasCell } = this.#layout;
    const first = (index - piece * this.#perPiece) * this.#frameBytes;
    const start = first + (hasCell ? CELL_BYTES : 0);
    const view = new DataView(bytes);
    const axis = (n: number) => {
      const at = start + n * (4 * this.atoms + 8);
      if (view.getInt32(at, true) !== 4 * this.atoms || view.getInt32(at + 4 + 4 * this.atoms, true) !== 4 * this.atoms) {
        throw new Error(`the DCD file is damaged at frame ${index}`);
      }
      return new Float32Array(bytes, at + 4, this.atoms);
    };
    return { x: axis(0), y: axis(1), z: axis(2), cell: hasCell ? cellAt(view, first + 4) : undefined };
  }

  /** Reads on behind a frame, for playing: its numbers will be there when they are asked for. */
  readAhead(index: number): void {
    const next = Math.floor(index / this.#perPiece) + 1;
    if (next * this.#perPiece < this.frames) void this.#piece(next).catch(() => undefined);
  }

  #piece(piece: number): Promise<ArrayBuffer> {
    const found = this.#pieces.get(piece) ?? this.#readPiece(piece);
    this.#pieces.delete(piece);
    this.#pieces.set(piece, found);
    for (const oldest of this.#pieces.keys()) {
      if (this.#pieces.size <= this.#mostPieces) break;
      this.#pieces.delete(oldest);
    }
    return found;
  }

  #readPiece(piece: number): Promise<ArrayBuffer> {
    const first = piece * this.#perPiece;
    const count = Math.min(this.#perPiece, this.frames - first);
    const from = this.#layout.start + first * this.#frameBytes;
    const to = from + count * this.#frameBytes;
    const reading = this.#read(from, to).then(({ bytes }) => {
      if (bytes.byteLength !== to - from) throw new Error("the DCD file ended before it should");
      return bytes;
    });
    // What failed is read again when it is asked for again.
    reading.catch(() => this.#pieces.delete(piece));
    return reading;
  }
}

/** The six numbers as the service writes them, whatever it read: a, cos γ, b, cos β, cos α, c; zeros for none. */
function cellAt(view: DataView, at: number): Cell | undefined {
  const number = (n: number) => view.getFloat64(at + 8 * n, true);
  const lengths: Numbers = [number(0), number(2), number(5)];
  return lengths.every((length) => length > 0) ? { lengths, cosines: [number(4), number(3), number(1)] } : undefined;
}

/** What the header says. Each of its records stands between two equal lengths. */
function layoutOf(header: DataView): Layout {
  const isDcd = header.byteLength >= 92 && header.getInt32(0, true) === 84 && header.getUint32(4) === 0x434f5244;
  if (!isDcd) throw new Error("this is no DCD file");
  if (header.getInt32(8 + 4 * 8, true) !== 0) throw new Error("a DCD file with fixed atoms cannot be read by parts");
  const hasCell = header.getInt32(8 + 4 * 10, true) === 1;
  const afterTitle = 92 + 4 + header.getInt32(92, true) + 4;
  if (afterTitle + 12 > header.byteLength || afterTitle < 100) throw new Error("the DCD file has a header that is too long");
  const atoms = header.getInt32(afterTitle + 4, true);
  if (atoms <= 0) throw new Error("the DCD file has no atoms");
  return { atoms, start: afterTitle + 12, hasCell };
}
