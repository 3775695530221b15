/** The list of sessions, read in pages: the newest of each workspace first, older and archived ones when they are wanted. */

import { api, inParallel } from "./api";
import type { Session } from "./wire_types";

const FIRST_PAGE = 50;
const NEXT_PAGE = 200;

export class SessionPages {
  /** Where the next page of each workspace begins. */
  private readonly next = new Map<string, string>();
  withArchived = false;

  get hasOlder(): boolean {
    return this.next.size > 0;
  }

  /** Read the first page of a workspace again. */
  async first(workspaceId: string): Promise<Session[]> {
    const page = await api.sessions(workspaceId, { limit: FIRST_PAGE, archived: this.withArchived });
    this.note(workspaceId, page.next);
    return page.items;
  }

  /** The next page of every workspace that has one. */
  async older(): Promise<Session[]> {
    const found: Session[] = [];
    await inParallel(
      [...this.next].map(([workspaceId, before]) => async () => {
        const page = await api.sessions(workspaceId, { limit: NEXT_PAGE, archived: this.withArchived, before });
        this.note(workspaceId, page.next);
        found.push(...page.items);
      }),
    );
    return found;
  }

  /** All sessions that are archived. */
  async archived(workspaceIds: Iterable<string>): Promise<Session[]> {
    this.withArchived = true;
    const found: Session[] = [];
    const read = async (workspaceId: string): Promise<void> => {
      let before: string | null = null;
      do {
        const page: { items: Session[]; next: string | null } = await api.sessions(workspaceId, {
          limit: NEXT_PAGE,
          archived: true,
          before,
        });
        found.push(...page.items.filter((session) => session.archived));
        before = page.next;
      } while (before !== null);
    };
    await inParallel([...workspaceIds].map((workspaceId) => () => read(workspaceId)));
    return found;
  }

  private note(workspaceId: string, next: string | null): void {
    if (next === null) this.next.delete(workspaceId);
    else this.next.set(workspaceId, next);
  }
}

/** The one prompted last first. Those of the same moment keep the order that the server gave them. */
export function sortNewestFirst(sessions: Session[]): Session[] {
  return sessions.sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
}

/** Both lists in one, the one prompted last first. The first list keeps its order. */
export function mergeSessions(shown: readonly Session[], added: readonly Session[]): Session[] {
  const known = new Set(shown.map((session) => session.id));
  const left = sortNewestFirst(added.filter((session) => !known.has(session.id)));
  const merged: Session[] = [];
  for (const session of shown) {
    while (left[0] && left[0].updated_at > session.updated_at) merged.push(left.shift()!);
    merged.push(session);
  }
  return [...merged, ...left];
}
