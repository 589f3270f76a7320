"""MLflow's REST interface, under ``/mlflow/{workspace}``, for the clients that it releases.

``door`` takes the requests and answers them, ``calls`` is the list of what can be called, and each
other file has the calls about one kind of thing.
"""
