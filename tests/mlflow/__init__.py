"""MLflow's released clients, oldest and newest, with a real server: ``make mlflow``."""
