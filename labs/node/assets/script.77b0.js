document.documentElement.dataset.script = "runs";
fetch("/api/visitor").then((answer) => answer.json()).then((visitor) => {
  document.documentElement.dataset.scheme = visitor.protocol;
});
