// SHA-256 (FIPS 180-4) of bytes that come in parts. The Web Crypto API wants all of them at once, and is not there on
// pages without TLS.

const ROUNDS = 64;
const BLOCK_BYTES = 64;

/** The first 32 bits of the fraction of a root of each prime. */
function constants(count: number, root: (prime: number) => number): Uint32Array {
  const found: number[] = [];
  for (let n = 2; found.length < count; n += 1) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= n; divisor += 1) isPrime &&= n % divisor !== 0;
    if (isPrime) found.push(Math.floor((root(n) % 1) * 2 ** 32));
  }
  return Uint32Array.from(found);
}

const K = constants(ROUNDS, Math.cbrt);

export class Sha256 {
  readonly #state = constants(8, Math.sqrt);
  readonly #schedule = new Uint32Array(ROUNDS);
  readonly #block = new Uint8Array(BLOCK_BYTES);
  readonly #words = new DataView(this.#block.buffer);
  #filled = 0;
  #size = 0;

  update(bytes: Uint8Array): this {
    this.#size += bytes.length;
    let at = 0;
    while (at < bytes.length) {
      const n = Math.min(BLOCK_BYTES - this.#filled, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + n), this.#filled);
      this.#filled += n;
      at += n;
      if (this.#filled === BLOCK_BYTES) this.#mix();
    }
    return this;
  }

  /** The digest in hexadecimal; nothing can be added after it. */
  hex(): string {
    const bits = this.#size * 8;
    this.#block[this.#filled] = 0x80;
    this.#filled += 1;
    this.#block.fill(0, this.#filled);
    if (this.#filled > BLOCK_BYTES - 8) {
      this.#mix();
      this.#block.fill(0);
    }
    this.#words.setUint32(BLOCK_BYTES - 8, Math.floor(bits / 2 ** 32));
    this.#words.setUint32(BLOCK_BYTES - 4, bits >>> 0);
    this.#mix();
    return Array.from(this.#state, (word) => word.toString(16).padStart(8, "0")).join("");
  }

  #mix(): void {
    const w = this.#schedule;
    for (let t = 0; t < 16; t += 1) w[t] = this.#words.getUint32(4 * t);
    for (let t = 16; t < ROUNDS; t += 1) {
      const x = w[t - 15]!;
      const y = w[t - 2]!;
      const s0 = rotated(x, 7) ^ rotated(x, 18) ^ (x >>> 3);
      const s1 = rotated(y, 17) ^ rotated(y, 19) ^ (y >>> 10);
      w[t] = w[t - 16]! + s0 + w[t - 7]! + s1;
    }
    let [a, b, c, d, e, f, g, h] = this.#state as unknown as Eight;
    for (let t = 0; t < ROUNDS; t += 1) {
      const sum1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
      const first = (h + sum1 + ((e & f) ^ (~e & g)) + K[t]! + w[t]!) | 0;
      const sum0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
      const second = (sum0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, at) => {
      this.#state[at]! += word;
    });
    this.#filled = 0;
  }
}

type Eight = [number, number, number, number, number, number, number, number];

function rotated(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}
