// A worker in a frame, for the search of the site: for a page that was opened from disk, browsers
// start no other.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.#load(one)));
      this.#loaded = this.#load(url);
    }

    #load(url) {
      return new Promise((resolve, reject) => {
        const page = this.#frame.contentDocument;
        const script = page.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = resolve;
        script.onerror = reject;
        page.body.append(script);
      });
    }

    postMessage(data) {
      const inside = this.#frame.contentWindow;
      this.#loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
