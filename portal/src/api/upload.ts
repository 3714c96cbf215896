//! A file of this machine to a registered file of the service, with what has been sent so far.
import { expectData, molbox, Refused, type Schemas, type Violation } from "./client.ts";
import { fields } from "./fields.ts";
import { Taken } from "./pending.ts";

export type Progress = {
  /** There is a pending file, which its content belongs to. */
  begun: (fileId: string) => void;
  sent: (bytes: number) => void;
};

/** The content has arrived and waits to be registered; what is wrong with its name can be mended. */
export type Uploaded = { fileId: string; format: string };

/** Extensions of files that can be sent: those of formats, and other names of them. */
export const EXTENSIONS: readonly string[] = [...fields.FileRegistration.format.values, "ent"];

/** The format that a file's extension names; undefined when it is none that the service knows. */
export function formatOf(fileName: string): string | undefined {
  const extension = fileName.split(".").at(-1)?.toLowerCase();
  // The Protein Data Bank's own name of its files.
  return fields.FileRegistration.format.values.find((format) => format === (extension === "ent" ? "pdb" : extension));
}

/** What a file is called until somebody calls it otherwise: its name without the extension, but for files of
 * built systems, which are many of one name. */
export function stemOf(fileName: string): string {
  return fileName.replace(PACKED, "").replace(/\.(pdb|ent|cif|mmcif|sdf|mol|mol2|xml|dcd|xtc|trr|nc|ncdf|netcdf)$/i, "") || fileName;
}

/** Why a file is not sent at all, however often it is tried. */
export class Unfit extends Error {}

const PACKED = /\.gz$/i;
/** What a packed file may become: it is held in memory, and a small one can become anything. */
const MOST_UNPACKED = 256e6;

/** The content of a file, without the packing of one that is a single packed file. */
async function unpacked(file: File): Promise<File> {
  if (!PACKED.test(file.name)) return file;
  const reader = file.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let size = 0; ;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Unfit(`${file.name} cannot be unpacked: it is no whole gzip file`);
    });
    if (done) return new File(parts, file.name.replace(PACKED, ""));
    size += value.length;
    if (size > MOST_UNPACKED) {
      await reader.cancel();
      throw new Unfit(`${file.name} has more than ${MOST_UNPACKED / 1e6} MB when it is unpacked; unpack it before it is sent`);
    }
    parts.push(value);
  }
}

/** The registered file of a name, if the account has it; its name can then be taken by no other. */
async function namedFile(name: string, signal: AbortSignal): Promise<Schemas["FileRecord"] | undefined> {
  const { items } = await expectData(molbox.GET("/info/files", { params: { query: { name, status: "ready", limit: 1 } }, signal }));
  return items.find((file) => file.name === name);
}

/** Digests are made of what is in memory, and over connections that others cannot read alone. */
const LARGEST_DIGESTED = 256e6;

async function isTheSame(file: File, { size_bytes, sha256 }: Schemas["FileRecord"]): Promise<boolean> {
  if (size_bytes !== file.size || sha256 === undefined || file.size > LARGEST_DIGESTED || !isSecureContext) return false;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === sha256;
}

/**
 * Sends a file that is to be registered under `name`, unless the account has it under that name: undefined then. What
 * would be refused for its name is not sent. Who calls discards what has begun and fails.
 */
export async function uploadAs(name: string, given: File, progress: Progress, signal: AbortSignal): Promise<Uploaded | undefined> {
  const there = await namedFile(name, signal);
  const file = await unpacked(given);
  if (!there) return upload(file, progress, signal);
  if (await isTheSame(file, there)) return undefined;
  throw new Taken(name);
}

/** Sends the content of a file. A file that is larger than the link takes is refused before. Who calls discards what has begun and fails. */
export async function upload(file: File, progress: Progress, signal: AbortSignal): Promise<Uploaded> {
  const format = formatOf(file.name);
  if (format === undefined) {
    if (/\.(bz2|xz|zst)$/i.test(file.name)) throw new Unfit(`${file.name} is compressed; unpack it first`);
    const known = EXTENSIONS.join(", ");
    throw new Unfit(`${file.name} has no extension that the service knows: ${known}`);
  }
  const link = await expectData(
    molbox.GET("/submit/upload-url", { params: { query: { filetype: format } }, signal }),
  );
  progress.begun(link.file_id);
  if (link.max_bytes !== undefined && file.size > link.max_bytes) {
    throw new Unfit(`${file.name} has ${file.size} bytes; the service takes at most ${link.max_bytes}`);
  }
  await put(link, file, progress.sent, signal);
  return { fileId: link.file_id, format };
}

/** Names what was uploaded; from then on it is a file like others. */
export function register(uploaded: Uploaded, name: string, key: string): Promise<Schemas["FileRecord"]> {
  return expectData(molbox.POST("/submit/file/", {
    body: { file_id: uploaded.fileId, name },
    params: { header: { "Idempotency-Key": key } },
  }));
}

/** `fetch` does not say how much of a body has been sent. */
function put(
  link: Schemas["UploadLink"], file: File, sent: Progress["sent"], signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const stop = () => request.abort();
    signal.addEventListener("abort", stop, { once: true });
    request.open("PUT", link.upload_url);
    if (link.content_type !== undefined) request.setRequestHeader("content-type", link.content_type);
    request.upload.onprogress = (event) => sent(event.loaded);
    request.onload = () => (request.status < 300 ? resolve() : reject(refusal(request)));
    request.onerror = () => reject(new Error("the connection broke while the file was sent"));
    request.onabort = () => reject(signal.reason);
    request.onloadend = () => signal.removeEventListener("abort", stop);
    request.send(file);
  });
}

function refusal(request: XMLHttpRequest): Refused {
  const headers = new Headers();
  for (const name of ["x-request-id", "retry-after"]) {
    const value = request.getResponseHeader(name);
    if (value !== null) headers.set(name, value);
  }
  return new Refused(new Response(null, { status: request.status, headers }), detailOf(request.responseText));
}

function detailOf(text: string): Violation[] {
  try {
    return (JSON.parse(text) as Schemas["HTTPValidationError"]).detail ?? [];
  } catch {
    // Something before the service answered.
    return [];
  }
}
