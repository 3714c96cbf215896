//! Files that are not registered yet: why one cannot be, and its end.
import { molbox } from "./client.ts";

/** Another file has the name. */
export class Taken extends Error {
  constructor(name: string) {
    super(`Another file is named ${name}. Give this one another name, or delete that one.`);
  }
}

/** Deletes what will not be registered, also while its window is closed. If that fails it ends with its link. */
export async function discard(file_id: string): Promise<void> {
  await molbox.DELETE("/info/file/{file_id}", { params: { path: { file_id } }, keepalive: true }).catch(() => undefined);
}
