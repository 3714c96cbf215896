//! A file of this machine to a registered file of the service, with what has been sent so far.
import { expectData, molbox, Refused, type Schemas, type Violation } from "./client.ts";
import { fields } from "./fields.ts";

export type Progress = {
  /** There is a pending file, which its content belongs to. */
  begun: (fileId: string) => void;
  sent: (bytes: number) => void;
};

/** The content has arrived and waits to be registered; what is wrong with its name can be mended. */
export type Uploaded = { fileId: string; format: string };

/** The format that a file's extension names; undefined when it is none that the service knows. */
export function formatOf(fileName: string): string | undefined {
  const extension = fileName.split(".").at(-1)?.toLowerCase();
  return fields.FileRegistration.format.values.find((format) => format === extension);
}

/** What a file is called until somebody calls it otherwise: its name without the extension, but for files of
 * built systems, which are many of one name. */
export function stemOf(fileName: string): string {
  return fileName.replace(/\.(pdb|cif|mmcif|sdf|mol|mol2|xml|dcd|xtc|trr|nc|ncdf|netcdf)$/i, "") || fileName;
}

/** Why a file is not sent at all, however often it is tried. */
export class Unfit extends Error {}

/** Sends the content of a file. A file that is larger than the link takes is refused before. Who calls discards what has begun and fails. */
export async function upload(file: File, progress: Progress, signal: AbortSignal): Promise<Uploaded> {
  const format = formatOf(file.name);
  if (format === undefined) {
    if (/\.(gz|bz2|xz|zst)$/i.test(file.name)) throw new Unfit(`${file.name} is compressed; unpack it first`);
    const known = fields.FileRegistration.format.values.join(", ");
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

/** Deletes what will not be registered. If that fails it ends with its link. */
export async function discard(file_id: string): Promise<void> {
  await molbox.DELETE("/info/file/{file_id}", { params: { path: { file_id } } }).catch(() => undefined);
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
