/** What the page shows, as it stands in the fragment of its address. */

export type Route =
  | { page: "list" }
  | { page: "new"; workspaceId: string | null }
  | { page: "session"; sessionId: string; details: boolean };

export function parseRoute(hash: string): Route {
  const [, first, second, third] = hash.split("/").map(decodeURIComponent);
  if (first === "s" && second) return { page: "session", sessionId: second, details: third === "details" };
  if (first === "new") return { page: "new", workspaceId: second || null };
  return { page: "list" };
}

export function routeHash(route: Route): string {
  if (route.page === "list") return "#/";
  if (route.page === "new") return `#/new/${encodeURIComponent(route.workspaceId ?? "")}`;
  return `#/s/${encodeURIComponent(route.sessionId)}${route.details ? "/details" : ""}`;
}
