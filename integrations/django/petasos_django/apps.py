"""The application: it registers the system checks and listens for changes of models."""

from django.apps import AppConfig


class PetasosConfig(AppConfig):
    name = "petasos_django"
    verbose_name = "Petasos"

    def ready(self):
        # Importing the module registers its checks. Both modules need the registry of models.
        from . import changes, checks  # noqa: F401

        changes.listen()
