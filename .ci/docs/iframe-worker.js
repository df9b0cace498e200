// Browsers refuse to start a worker for a page that was opened from a file. The search then runs in a hidden frame, whose
// window behaves as the scope of a worker. zensical adds a script from the network unless one has "iframe-worker" in its name.
if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      // A worker gets copies: the search changes the query that it receives
      this.frame.receive = (data) => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };

      const page = this.frame.contentWindow.document;
      page.open();
      page.write(`<script>
        postMessage = (data) => frameElement.receive(data);
        importScripts = async (...urls) => {
          for (const url of urls)
            await new Promise((loaded) => {
              const script = document.createElement("script");
              script.src = url;
              script.onload = loaded;
              document.head.append(script);
            });
        };
      </` + `script><script src="${url}"></` + `script>`);
      page.close();
      this.ready = new Promise((loaded) => this.frame.contentWindow.addEventListener("load", loaded));
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: copy })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
