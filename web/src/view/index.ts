/** The reducer of the page. It is a file of its own in the build, so that tests run exactly what is shipped. */

export { TranscriptFold, TranscriptEntry } from "./transcript_fold";
export * from "./values";
export { ViewFold, type Aspect, type SessionSnapshot } from "./view_fold";
