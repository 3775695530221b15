/** Tells the user what happened while the page is not in front: title, sound, and a notification if that is allowed. */

const KEY = "holdfast.notify";
let unseen = 0;
let context: AudioContext | null = null;

export interface NotifySettings {
  notify: boolean;
  sound: boolean;
}

export function notifySettings(): NotifySettings {
  try {
    return { notify: false, sound: false, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as object) };
  } catch {
    return { notify: false, sound: false };
  }
}

/** Change the settings. Browsers ask the user for notifications, and allow sound after a click. */
export async function setNotify(change: Partial<NotifySettings>): Promise<NotifySettings> {
  const settings = { ...notifySettings(), ...change };
  if (change.notify && "Notification" in window && Notification.permission !== "granted") {
    settings.notify = (await Notification.requestPermission()) === "granted";
  }
  if (change.notify && !("Notification" in window)) settings.notify = false;
  if (change.sound) beep();
  localStorage.setItem(KEY, JSON.stringify(settings));
  return settings;
}

function beep(): void {
  try {
    context ??= new AudioContext();
    const tone = context.createOscillator();
    const volume = context.createGain();
    tone.frequency.value = 740;
    volume.gain.setValueAtTime(0.08, context.currentTime);
    volume.gain.exponentialRampToValueAtTime(0.001, context.currentTime + 0.25);
    tone.connect(volume).connect(context.destination);
    tone.start();
    tone.stop(context.currentTime + 0.25);
  } catch {
    // the browser has no sound
  }
}

function showTitle(): void {
  document.title = unseen ? `(${unseen}) Holdfast` : "Holdfast";
}

/** `open` is called when the notification is clicked. */
export function tellOutside(title: string, text: string, open: () => void): void {
  const settings = notifySettings();
  if (document.visibilityState === "visible" && document.hasFocus()) return;
  unseen++;
  showTitle();
  if (settings.sound) beep();
  if (!settings.notify || !("Notification" in window) || Notification.permission !== "granted") return;
  try {
    const notification = new Notification(`Holdfast: ${title}`, { body: text.slice(0, 200), tag: "holdfast" });
    notification.onclick = () => {
      window.focus();
      notification.close();
      open();
    };
  } catch {
    // phones allow notifications only from service workers
  }
}

function seen(): void {
  if (document.visibilityState !== "visible") return;
  unseen = 0;
  showTitle();
}

document.addEventListener("visibilitychange", seen);
addEventListener("focus", seen);
