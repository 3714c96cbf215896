//! What charts are of, in the names of the files that they are saved as.
import { createContext, useContext } from "react";

const LONGEST = 120;

/** The job or the file whose numbers are drawn; empty where the numbers are of nothing that has a name. */
export const Subject = createContext("");

/** The name of a file for what has this title, without an extension. */
export function useFileName(title: string): string {
  return fileNameOf(useContext(Subject), title);
}

/** The same for a subject. */
export function fileNameOf(subject: string, title: string): string {
  return [subject, title].filter((part) => part !== "").join(" ").replaceAll(/[^\p{L}\p{N}.-]+/gu, "_").slice(0, LONGEST);
}
