document.documentElement.dataset.loaded = "yes";
